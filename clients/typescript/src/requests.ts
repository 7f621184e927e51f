/** Paths and bodies of requests. No I/O. */
import { InvalidArgument } from "./errors.js";
import { toJson } from "./json.js";
import { checkedFilter, checkedOptions, checkedSpelling, checkedToken, checkObject, checkVector } from "./options.js";
import type { Repeat } from "./retry.js";
import type { Request } from "./transport.js";
import type { Asked, CallOptions, Chunking, Example, Filter, Given, Id, Image, ReadOptions, Vector } from "./types.js";

const NAME = /^[A-Za-z0-9_-][A-Za-z0-9._-]*$/;

/**
 * /v1/collections/NAME; InvalidArgument for a name that would lead to another route.
 *
 * The service decides which names are good; here only those are refused that no path can carry.
 */
export function collectionPath(name: string): string {
  return `/v1/collections/${checkedName(name)}`;
}

/** /v1/aliases/NAME. */
export function aliasPath(name: string): string {
  return `/v1/aliases/${checkedName(name)}`;
}

export function checkedName(name: string): string {
  if (typeof name === "string" && NAME.test(name)) return name;
  throw new InvalidArgument("the name of a collection consists of letters, digits, '_', '-' and '.', and does not begin with '.'");
}

/** A request with a JSON body that is written already. */
export function jsonRequest(method: "POST" | "PUT", path: string, body: string, repeat: Repeat = "always"): Request {
  return { method, path, body, headers: { "content-type": "application/json" }, repeat };
}

/** A POST of some fields. */
export function post(path: string, fields: object, repeat: Repeat = "always"): Request {
  checkedFilter((fields as { filter?: Filter | null }).filter);
  return jsonRequest("POST", path, toJson(fields, "request"), repeat);
}

/** What the client's own options are, and what travels. form: the call as it is written, for whoever gives something else than options. */
export function split<Options extends CallOptions & Chunking>(
  options: Options,
  form = "",
): {
  call: CallOptions;
  chunking: Chunking;
  fields: Omit<Options, keyof CallOptions | keyof Chunking>;
} {
  const { signal, timeout, retry, token, maxItems, maxBytes, onProgress, ...fields } = checkedSpelling(
    checkedObject(options, "the options", null, form),
  );
  return { call: { signal, timeout, retry, token }, chunking: { maxItems, maxBytes, onProgress }, fields };
}

/** The options of a read, its `after` as the token of the call. */
export function asRead<Options extends ReadOptions>(options: Options): Omit<Options, "after"> {
  const { after, ...rest } = checkedObject(options, "the options");
  return after === undefined || after === null ? rest : { ...rest, token: checkedToken(after) };
}

/** The JSON of a vector; InvalidArgument if it has none. */
export function vectorJson(vector: Vector, position: number | null = null): string {
  checkVector(vector, position);
  return toJson(vector, "vector", position, "bad_vector");
}

/** Whether this is a vector by itself, and not an object that holds one; InvalidArgument for what is neither. */
export function isVector(given: Asked | Vector | Given, position: number | null = null): given is Vector {
  if (typeof given !== "object" || given === null) throw noQuery(position);
  return Array.isArray(given) || ArrayBuffer.isView(given) || "tokens" in given || "indices" in given;
}

/** What is asked for, as fields of JSON: `"vector":[...]`, or `"string":"kitten"`. */
export async function subject(given: Asked | Given, position: number | null = null): Promise<string> {
  if (isVector(given, position)) return `"vector":${vectorJson(given, position)}`;
  checkObject(given, position);
  checkFields(given, position);
  const object = await withText(given);
  const json = toJson(object, "query", position, "bad_object");
  if (json === "{}") throw noQuery(position, "zero_vector");
  return json.slice(1, -1);
}

/** The vectors of several fields, as `checkVector`. */
export function checkFields(held: object, position: number | null = null): void {
  const { vectors } = held as { vectors?: unknown };
  if (vectors === undefined) return;
  if (typeof vectors !== "object" || vectors === null || Array.isArray(vectors))
    throw new InvalidArgument(`vectors are an object of field to value, not ${kindOf(vectors)}`, position, "bad_parameter");
  for (const vector of Object.values(vectors)) checkVector(vector, position);
}

function noQuery(position: number | null, code = "bad_vector"): InvalidArgument {
  const text = "a query is a vector, or an object as {string: …}, {series: …}, {points: …}, {image: …}";
  return new InvalidArgument(text, position, code);
}

/** An object as it is; InvalidArgument for anything else in its place, which callers without types may send. */
export function checkedObject<Held extends object>(given: Held, what: string, position: number | null = null, form = ""): Held {
  if (typeof given === "object" && given !== null) return given;
  const shown = form && `, as in ${form}`;
  throw new InvalidArgument(`${what}: an object is expected${shown}, not ${kindOf(given)}`, position, "bad_parameter");
}

/** Anything to iterate over as it is, awaited or not; InvalidArgument for what is none, and for a string. */
export function checkedMany<Many extends object>(given: Many, what: string): Many {
  if (typeof given === "object" && given !== null && (Symbol.iterator in given || Symbol.asyncIterator in given)) return given;
  throw new InvalidArgument(
    `${what}: an array, or something else to iterate over, is expected, not ${kindOf(given)}`,
    null,
    "bad_parameter",
  );
}

/** What awaits nobody as an array. */
export function listOf<T>(given: Iterable<T>, what: string): T[] {
  if (typeof given === "object" && given !== null && Symbol.iterator in given) return [...given];
  throw new InvalidArgument(`${what}: a list is expected, not ${kindOf(given)}`, null, "bad_parameter");
}

function kindOf(given: unknown): string {
  return given === null ? "null" : typeof given;
}

/** The same object, an image as base64. */
export async function withText<Held extends object>(held: Held): Promise<Held> {
  return "image" in held && typeof held.image === "object" && held.image !== null
    ? { ...held, image: await base64(held.image as Exclude<Image, string>) }
    : held;
}

const PART = 0x6000;

/** Bytes as base64. */
async function base64(image: Exclude<Image, string>): Promise<string> {
  const bytes = image instanceof Uint8Array ? image : new Uint8Array(image instanceof ArrayBuffer ? image : await image.arrayBuffer());
  let text = "";
  // Parts of three bytes are whole ones in base64, and few enough to be arguments.
  for (let at = 0; at < bytes.length; at += PART) text += btoa(String.fromCharCode(...bytes.subarray(at, at + PART)));
  return text;
}

const LEAST_ID = -(2n ** 63n);
const LARGEST_ID = 2n ** 64n - 1n;

/** An id as it travels, a whole number as its digits; InvalidArgument if it is none. */
export function idOf(id: Id, position: number | null = null): string {
  if (typeof id === "string") return id;
  if (typeof id === "bigint" && id >= LEAST_ID && id <= LARGEST_ID) return id.toString();
  if (Number.isSafeInteger(id)) return String(id);
  const wrong = typeof id === "number" || typeof id === "bigint" ? String(id) : kindOf(id);
  throw new InvalidArgument(`an id is a string, a safe integer, or a bigint of 64 bits, this is ${wrong}`, position, "bad_id");
}

/** A list of ids as they travel; InvalidArgument for one string in its place, or for an id that is none. */
export function idList(ids: Iterable<Id>): string[] {
  return listOf(ids, "ids").map((id, position) => idOf(id, position));
}

/** The ids that a query names as they travel: its own, those of `exclude`, and those of examples; images as base64. */
export async function withIds<Held extends object>(held: Held, position: number | null = null): Promise<Held> {
  checkedOptions(held, position);
  const { id, exclude, positive, negative } = held as {
    id?: Id;
    exclude?: readonly Id[];
    positive?: readonly Example[];
    negative?: readonly Example[];
  };
  const made: Record<string, unknown> = {};
  if (id !== undefined && id !== null) made.id = idOf(id);
  if (exclude !== undefined && exclude !== null) made.exclude = excluded(exclude);
  if (positive !== undefined && positive !== null) made.positive = await positiveList(positive);
  if (negative !== undefined && negative !== null) made.negative = await exampleList(negative);
  return withText({ ...held, ...made });
}

/** Ids that are left out; unlike those that are asked for they are an option, and refused as one. */
function excluded(ids: Iterable<Id>): string[] {
  try {
    const listed = idList(ids);
    if (!listed.includes("")) return listed;
  } catch (error) {
    if (!(error instanceof InvalidArgument)) throw error;
  }
  const says = "exclude is a list of ids, each a string that is not empty or a 64-bit integer";
  throw new InvalidArgument(says, null, "bad_parameter");
}

/** Positive examples as they travel, of which there is one at least. */
export async function positiveList(examples: readonly Example[]): Promise<unknown[]> {
  const listed = await exampleList(examples);
  if (listed.length > 0) return listed;
  throw new InvalidArgument("positive has at least one example", null, "bad_parameter");
}

/** Examples as they travel. */
export function exampleList(examples: readonly Example[]): Promise<unknown[]> {
  return Promise.all(
    listOf(examples, "examples").map((one, place) => (typeof one === "object" && one !== null ? withText(one) : idOf(one, place))),
  );
}

/** ?name=value&..., without those that are undefined. */
export function queryString(fields: object): string {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(fields) as [string, unknown][]) {
    if (value !== undefined && value !== null) parameters.set(name, Array.isArray(value) ? value.join(",") : String(value));
  }
  const text = parameters.toString();
  return text && `?${text}`;
}
