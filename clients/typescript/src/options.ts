/** What is refused before it is sent, with the code that the service would answer with: options, filters and vectors, as in the Python client. */
import { InvalidArgument } from "./errors.js";
import { toJson } from "./json.js";
import type { CallOptions, Filter } from "./types.js";

interface Bounds {
  readonly says: string;
  readonly least?: number;
  readonly above?: number;
  readonly most?: number;
}

/** Numbers of queries. What is no number at all, and what a limit says, the service judges. */
const NUMBERS: Readonly<Record<string, Bounds>> = {
  k: { says: "is a whole number from 1 on", least: 1 },
  target_recall: { says: "is a number above 0 and at most 1", above: 0, most: 1 },
  min_score: { says: "is a finite number, or null" },
  max_distance: { says: "is a finite number from 0 on, or null", least: 0 },
  offset: { says: "is a whole number from 0 on", least: 0 },
};
const TRUTHS = ["certify", "include_self", "debug", "allow_partial"] as const;

/** What is the client's own, by the name that it would have if it travelled: the service knows none of these, and cannot say what is meant. */
const OWN: Readonly<Record<string, string>> = {
  exist_ok: "existOk",
  max_items: "maxItems",
  max_bytes: "maxBytes",
  on_progress: "onProgress",
  idempotency_key: "idempotencyKey",
};

/** Options as they are; InvalidArgument "bad_parameter" for one of the client's own that is spelled as those of the REST interface. */
export function checkedSpelling<Held extends object>(given: Held): Held {
  for (const name of Object.keys(given)) {
    const meant = Object.hasOwn(OWN, name) ? OWN[name] : undefined;
    if (meant !== undefined) throw bad(`unknown option ${name}; did you mean ${meant}?`);
  }
  return given;
}

/** The options of a query as they are; InvalidArgument "bad_parameter" for a number out of its bounds, or a truth that is none. */
export function checkedOptions(options: object, position: number | null = null): void {
  const given = options as Readonly<Record<string, unknown>>;
  for (const [name, bounds] of Object.entries(NUMBERS)) {
    const value = given[name];
    if ((typeof value === "number" || typeof value === "bigint") && !within(Number(value), bounds))
      throw bad(`${name} ${bounds.says}`, position);
  }
  for (const name of TRUTHS) {
    if (given[name] !== undefined && typeof given[name] !== "boolean") throw bad(`${name} is true or false`, position);
  }
  const { include, filter } = given;
  if (include !== undefined && typeof include !== "string" && !isList(include))
    throw bad("include lists some of vector, payload, payload.FIELD", position);
  checkedFilter(filter as Filter | null | undefined);
}

function within(value: number, { least = -Infinity, above = -Infinity, most = Infinity }: Bounds): boolean {
  return Number.isFinite(value) && value >= least && value > above && value <= most;
}

/** The token of a write; InvalidArgument "bad_parameter" for what is none. */
export function checkedToken(token: CallOptions["token"]): CallOptions["token"] {
  if (token === undefined || token === null || typeof token === "string") return token;
  throw bad("after is the token of a write, or null");
}

/** A filter as it is, or none; InvalidArgument "bad_filter" for what is no object, or has no JSON. The service judges what it says. */
export function checkedFilter<Given extends Filter | null | undefined>(filter: Given): Given {
  if (filter === undefined || filter === null) return filter;
  if (typeof filter !== "object" || Array.isArray(filter))
    throw new InvalidArgument('a filter is an object with at least one field, as {"year": {"$gte": 2020}}', null, "bad_filter");
  toJson(filter, "filter", null, "bad_filter");
  return filter;
}

/** A list of strings as it is, or none; InvalidArgument "bad_parameter" for one string in its place. */
export function checkedNames(names: unknown, what: string): void {
  if (names !== undefined && !isList(names)) throw bad(`${what} are a list of strings`);
}

/** InvalidArgument for a vector that contradicts itself, and "zero_vector" for one without values. The service judges what its numbers are. */
export function checkVector(vector: unknown, position: number | null = null): void {
  if (typeof vector !== "object" || vector === null) return;
  if (Array.isArray(vector)) {
    if (typeof vector[0] === "string" && vector.some((token) => typeof token !== "string"))
      throw notThis("tokens are strings, one of these is not; a vector is all tokens or all numbers", position);
    return;
  }
  if (Object.keys(vector).length === 0 && !ArrayBuffer.isView(vector))
    throw new InvalidArgument("a vector has at least one value that is not zero, this one has none", position, "zero_vector");
  const { indices, values, tokens } = vector as Readonly<Record<string, unknown>>;
  if (tokens !== undefined) return Array.isArray(tokens) ? checkVector(tokens, position) : undefined;
  if (indices === undefined || values === undefined) return;
  if (!isColumn(indices) || !isColumn(values)) throw notThis("indices and values are lists of numbers", position);
  if (indices.length !== values.length)
    throw notThis(`${values.length} values came with ${indices.length} indices; send one value for each index`, position);
}

/** InvalidArgument "bad_object" for an object that is not of its kind. */
export function checkObject(held: object, position: number | null = null): void {
  const { string, series, points } = held as Readonly<Record<string, unknown>>;
  if (string !== undefined && typeof string !== "string") throw noObject("a string is expected here", position);
  if (series !== undefined && !isColumn(series)) throw noObject("a series is an array of numbers", position);
  if (points !== undefined && !isColumn(points)) throw noObject("a point set is an array of numbers", position);
}

function isList(value: unknown): boolean {
  return typeof value === "object" && value !== null && Symbol.iterator in value;
}

function isColumn(value: unknown): value is ArrayLike<unknown> {
  return Array.isArray(value) || ArrayBuffer.isView(value);
}

function bad(text: string, position: number | null = null): InvalidArgument {
  return new InvalidArgument(text, position, "bad_parameter");
}

function notThis(text: string, position: number | null): InvalidArgument {
  return new InvalidArgument(text, position, "bad_vector");
}

function noObject(text: string, position: number | null): InvalidArgument {
  return new InvalidArgument(text, position, "bad_object");
}
