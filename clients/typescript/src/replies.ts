/** Answers of the service, parsed: bytes in, values or errors out. No I/O. */
import {
  ApiError,
  BadRequest,
  Conflict,
  Forbidden,
  InvalidInput,
  NotFound,
  RateLimited,
  ServerError,
  StorageFull,
  TooLarge,
  Unauthorized,
  Unavailable,
  UnexpectedResponse,
  UnsupportedMedia,
  type KinbinClientError,
  type Problem,
  type Refusal,
} from "./errors.js";
import { fromJson } from "./json.js";
import { retryAfterOf } from "./retry.js";

/** One answer as it came. */
export interface Reply {
  status: number;
  headers: Headers;
  body: Uint8Array<ArrayBuffer>;
}

/** Status → class; other 4xx are BadRequest, other 5xx ServerError. */
export const ERROR_CLASSES: Readonly<Record<number, typeof ApiError>> = {
  400: BadRequest,
  401: Unauthorized,
  403: Forbidden,
  404: NotFound,
  409: Conflict,
  413: TooLarge,
  415: UnsupportedMedia,
  422: InvalidInput,
  429: RateLimited,
  503: Unavailable,
  507: StorageFull,
};

const EXCERPT_LENGTH = 200;
const CREDENTIALS = /(bearer|basic)\s+[^\s"'<]+/gi;

/** The media type of an answer, without its parameters. */
export function contentType(headers: Headers): string {
  return (headers.get("content-type") ?? "").split(";", 1)[0]?.trim().toLowerCase() ?? "";
}

/** The beginning of a body on one line, fit for a message: without control characters and credentials. */
export function excerptOf(body: Uint8Array): string {
  const text = new TextDecoder().decode(body.subarray(0, 4 * EXCERPT_LENGTH));
  const line = text
    .replace(/[\s\p{C}]+/gu, " ")
    .trim()
    .replace(CREDENTIALS, "$1 ***");
  return line.length <= EXCERPT_LENGTH ? line : `${line.slice(0, EXCERPT_LENGTH)}...`;
}

/** The error that a reply stands for, or null for a 2xx. */
export function errorOf(reply: Reply): KinbinClientError | null {
  const { status, headers, body } = reply;
  if (status >= 200 && status < 300) return null;
  if (status < 400) {
    const where = headers.get("location") ?? "";
    const hint = "redirects are not followed, so that the API key goes nowhere else: give the client the final address";
    return new UnexpectedResponse(`the service redirected to '${where}'; ${hint}`, status, contentType(headers), excerptOf(body));
  }
  const told = { retryAfter: retryAfterOf(headers.get("retry-after")), requestId: headers.get("x-request-id") };
  const problem = contentType(headers) === "application/problem+json" ? problemOf(valueOf(body)) : null;
  return refused(status, { ...(problem ?? { code: null, detail: foreign(reply) }), ...told });
}

/** The error of a problem document that stands in an answer, as at the end of a stream of lines; null if it is none. */
export function problemError(document: unknown): ApiError | null {
  const problem = problemOf(document);
  const status = isObject(document) && typeof document.status === "number" ? document.status : 500;
  return problem && refused(status, problem);
}

function refused(status: number, refusal: Omit<Refusal, "status">): ApiError {
  const errorClass = ERROR_CLASSES[status] ?? (status < 500 ? BadRequest : ServerError);
  return new errorClass({ status, ...refusal });
}

/** The fields of a JSON object of an answer; UnexpectedResponse if it is none, or lacks what every answer of its route has. */
export function parsed<T>(reply: Reply, ...required: (keyof T & string)[]): T {
  const error = errorOf(reply);
  if (error !== null) throw error;
  const value = valueOf(reply.body);
  const lacking = isObject(value) ? required.find((name) => !(name in value)) : undefined;
  if (!isObject(value) || lacking !== undefined) {
    const reason = lacking === undefined ? "it is no JSON object" : `it has no ${lacking}`;
    const { status, headers, body } = reply;
    throw new UnexpectedResponse(`the answer is not what the service documents: ${reason}`, status, contentType(headers), excerptOf(body));
  }
  return value as T;
}

/** The JSON value of a body; undefined if it is none. */
function valueOf(body: Uint8Array): unknown {
  try {
    return fromJson(new TextDecoder("utf-8", { fatal: true }).decode(body));
  } catch {
    return undefined;
  }
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** What a problem document says, or null when Kinbin did not write it. */
function problemOf(value: unknown): Omit<Refusal, "status"> | null {
  if (!isObject(value) || typeof value.code !== "string") return null;
  const errors: unknown[] = Array.isArray(value.errors) ? value.errors : [];
  const text = (one: unknown): string => (typeof one === "string" ? one : "");
  return {
    code: value.code,
    detail: text(value.detail) || text(value.title),
    errors: errors.filter(isObject).map((entry): Problem => ({ pointer: text(entry.pointer), detail: text(entry.detail) })),
    limit: text(value.limit) || null,
  };
}

function foreign({ headers, body }: Reply): string {
  const origin = `an answer in a form that Kinbin does not use (${contentType(headers) || "no content type"}): perhaps from a proxy`;
  const excerpt = excerptOf(body);
  return excerpt ? `${origin}: ${excerpt}` : origin;
}
