/**
 * JSON with whole numbers of 64 bits, and without surprises.
 *
 * Features of tokens are hashes of 63 bits, and payloads hold whole numbers of 64, of which a JavaScript number holds 53. Those that are no
 * safe integers are bigint, in both directions, wherever an answer has features or what stood in a payload; so what was read can be sent
 * again. What JSON.stringify would change silently (NaN and infinity to null, a Map to {}) is refused.
 */
import { InvalidArgument } from "./errors.js";

/** What a value that has no JSON is refused for. */
class NoJson extends Error {
  constructor(
    readonly reason: string,
    readonly code: string | null = null,
  ) {
    super(reason);
  }
}

/** A whole number of 16 digits or more; perhaps inside of a string. */
const UNBOUND = /[[:,\s]-?\d{16,}\s*[,\]}]/;
/** Strings, and such numbers with what is before them. */
const STRINGS_AND_UNBOUND = /"[^"\\]*(?:\\.[^"\\]*)*"|([[:,\s])(-?\d{16,})(?=\s*[,\]}])/g;
const MARKED = /^\u0000-?\d{16,}$/;
/** Where numbers are features, or stood in a payload, at any depth. All others are such that a number holds them, or nearly. */
const EXACT = new Set(["payload", "indices", "feature", "values", "groups"]);

/** The JSON of a value; InvalidArgument, naming `what`, if it has none. `code` is that of the service, if it would refuse it as such. */
export function toJson(value: unknown, what: string, position: number | null = null, code: string | null = null): string {
  try {
    return written(value);
  } catch (error) {
    const reason = error instanceof NoJson ? error.reason : error instanceof RangeError ? "it is nested too deeply, or in itself" : null;
    if (reason === null) throw error;
    throw new InvalidArgument(`the ${what} has no JSON form: ${reason}`, position, codeOf(error, code));
  }
}

/** Numbers of vectors and objects are told as such; of payloads, filters and options the whole is. */
function codeOf(error: unknown, code: string | null): string | null {
  const own = error instanceof NoJson ? error.code : null;
  return own !== null && (code === null || code === "bad_vector" || code === "bad_object") ? own : code;
}

/** The JSON of a payload; InvalidArgument "bad_payload" for what is no object, or has no JSON. */
export function payloadJson(payload: unknown, position: number | null): string {
  const kind = typeof payload !== "object" ? typeof payload : Array.isArray(payload) ? "a list" : null;
  if (kind !== null) throw new InvalidArgument(`a payload is a JSON object or null, this is ${kind}`, position, "bad_payload");
  return toJson(payload, "payload", position, "bad_payload");
}

function written(value: unknown): string {
  switch (typeof value) {
    case "string":
    case "boolean":
      return JSON.stringify(value);
    case "number":
      return number(value);
    case "bigint":
      return value.toString();
    case "object":
      break;
    default:
      throw new NoJson(`${typeof value} is not JSON`);
  }
  if (value === null) return "null";
  if (Array.isArray(value)) return `[${typeof value[0] === "number" ? numbers(value) : list(value)}]`;
  if (isTyped(value)) return `[${numbers(value)}]`;
  if ("toJSON" in value && typeof value.toJSON === "function") return written(value.toJSON());
  const kind: unknown = Object.getPrototypeOf(value);
  // Objects of other realms have another Object.prototype, which has no prototype either.
  if (kind !== null && Object.getPrototypeOf(kind) !== null) throw new NoJson(`${value.constructor?.name ?? "such an object"} is not JSON`);
  const fields = Object.entries(value).filter(([, field]) => field !== undefined);
  return `{${fields.map(([name, field]) => `${JSON.stringify(name)}:${written(field)}`).join(",")}}`;
}

function number(value: number): string {
  if (!Number.isFinite(value)) throw new NoJson("numbers are finite, one of these is NaN or infinite", "non_finite");
  return String(value);
}

function list(values: readonly unknown[]): string {
  // Holes of an array are undefined, which is no JSON; map would pass over them.
  return Array.from(values, written).join(",");
}

function numbers(values: readonly unknown[] | TypedNumbers): string {
  for (let place = 0; place < values.length; place++) {
    const value = values[place];
    if (typeof value !== "number") return list(values as readonly unknown[]);
    if (!Number.isFinite(value)) number(value);
  }
  return values.join(",");
}

/** The numeric arrays of JavaScript, less those of bigint. */
export type TypedNumbers = Float32Array | Float64Array | Int8Array | Uint8Array | Int16Array | Uint16Array | Int32Array | Uint32Array;

function isTyped(value: object): value is TypedNumbers {
  return (
    ArrayBuffer.isView(value) && !(value instanceof DataView) && !(value instanceof BigInt64Array) && !(value instanceof BigUint64Array)
  );
}

/** The value of a JSON text; SyntaxError if it is none. Features, and whole numbers of payloads, are bigint if they are no safe integers. */
export function fromJson(text: string): unknown {
  if (!UNBOUND.test(text)) return JSON.parse(text);
  // Only such numbers are marked, so that all else is read by JSON.parse. Strings that look marked get a second mark.
  const marked = text.replace(STRINGS_AND_UNBOUND, (found: string, before: string | undefined, digits: string) => {
    if (before === undefined) return found.startsWith('"\\u0000') ? `"\\u0000${found.slice(1)}` : found;
    return Number.isSafeInteger(Number(digits)) ? found : `${before}"\\u0000${digits}"`;
  });
  return restored(JSON.parse(marked), false);
}

function restored(value: unknown, exact: boolean): unknown {
  if (typeof value === "string") return unmarked(value, exact);
  if (Array.isArray(value)) return value.map((one) => restored(one, exact));
  if (typeof value !== "object" || value === null) return value;
  const restoredField = ([name, field]: [string, unknown]): [string, unknown] => [
    name.startsWith("\u0000") ? name.slice(1) : name,
    restored(field, exact || EXACT.has(name)),
  ];
  return Object.fromEntries(Object.entries(value).map(restoredField));
}

function unmarked(text: string, exact: boolean): unknown {
  if (!text.startsWith("\u0000")) return text;
  if (!MARKED.test(text)) return text.slice(1);
  return exact ? BigInt(text.slice(1)) : Number(text.slice(1));
}
