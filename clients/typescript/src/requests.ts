/** Paths and bodies of requests. No I/O. */
import { InvalidArgument } from "./errors.js";
import { toJson } from "./json.js";
import type { Repeat } from "./retry.js";
import type { Request } from "./transport.js";
import type { Asked, CallOptions, Chunking, Given, Image, Vector } from "./types.js";

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
  if (NAME.test(name)) return name;
  throw new InvalidArgument("the name of a collection consists of letters, digits, '_', '-' and '.', and does not begin with '.'");
}

/** A request with a JSON body that is written already. */
export function jsonRequest(method: "POST" | "PUT", path: string, body: string, repeat: Repeat = "always"): Request {
  return { method, path, body, headers: { "content-type": "application/json" }, repeat };
}

/** A POST of some fields. */
export function post(path: string, fields: object, repeat: Repeat = "always"): Request {
  return jsonRequest("POST", path, toJson(fields, "request"), repeat);
}

/** What the client's own options are, and what travels. */
export function split<Options extends CallOptions & Chunking>(
  options: Options,
): {
  call: CallOptions;
  chunking: Chunking;
  fields: Omit<Options, keyof CallOptions | keyof Chunking>;
} {
  const { signal, timeout, retry, maxItems, maxBytes, onProgress, ...fields } = options;
  return { call: { signal, timeout, retry }, chunking: { maxItems, maxBytes, onProgress }, fields };
}

/** The JSON of a vector; InvalidArgument if it has none. */
export function vectorJson(vector: Vector, position: number | null = null): string {
  return toJson(vector, "vector", position, "bad_vector");
}

/** Whether this is a vector by itself, and not an object that holds one. */
export function isVector(given: Asked | Vector | Given): given is Vector {
  return Array.isArray(given) || ArrayBuffer.isView(given) || "tokens" in given || "indices" in given;
}

/** What is asked for, as fields of JSON: `"vector":[...]`, or `"string":"kitten"`. */
export async function subject(given: Asked | Given, position: number | null = null): Promise<string> {
  if (isVector(given)) return `"vector":${vectorJson(given, position)}`;
  const object = await withText(given);
  const json = toJson(object, "query", position);
  if (json === "{}")
    throw new InvalidArgument("a query is a vector, or an object as {string: …}, {series: …}, {points: …}, {image: …}", position);
  return json.slice(1, -1);
}

/** The same object, an image as base64. */
export async function withText<Held extends object>(held: Held): Promise<Held> {
  return "image" in held && typeof held.image !== "string" ? { ...held, image: await base64(held.image as Exclude<Image, string>) } : held;
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

/** A list of ids; InvalidArgument for one string in its place, or for an id that is none. */
export function idList(ids: Iterable<string>): string[] {
  if (typeof ids === "string") throw new InvalidArgument("ids are a list of strings", null, "bad_parameter");
  const listed = [...ids];
  const wrong = listed.findIndex((id) => typeof id !== "string");
  if (wrong >= 0) throw new InvalidArgument(`an id is a string, this is ${typeof listed[wrong]}`, wrong, "bad_id");
  return listed;
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
