/**
 * Every error that the client throws on purpose: the tree of the Python client, with the same names and codes.
 *
 *     KinbinClientError
 *     ├── InvalidArgument         an argument cannot be put into a request; that request was not sent
 *     ├── ClientClosed            use after close()
 *     ├── ApiError                the service answered with a status of 400 or more
 *     │   ├── BadRequest          400, and any other 4xx without a class of its own
 *     │   ├── Unauthorized        401       ├── Forbidden   403       ├── NotFound          404
 *     │   ├── Conflict            409       ├── TooLarge    413       ├── UnsupportedMedia  415
 *     │   ├── InvalidInput        422: `errors` says what is wrong, and where
 *     │   ├── RateLimited         429: `retryAfter` says when to come back
 *     │   └── ServerError         500 and any other 5xx
 *     │       ├── Unavailable     503       └── StorageFull 507
 *     ├── UnexpectedResponse      an answer that is not Kinbin's (a proxy's page, truncated JSON, a redirect)
 *     └── TransportError          no answer arrived; `outcomeUnknown` says whether the work may have been done
 *         ├── Timeout             no answer in time
 *         │   └── ConnectTimeout  (also ConnectionFailed)
 *         ├── ConnectionFailed    no connection: nothing was sent
 *         └── ConnectionLost      the connection broke, or may have broken, after the request had begun
 *
 * A call that is aborted by its own signal throws the signal's reason, as fetch does. No error holds an API key.
 */

const BATCHES = new Set(["items", "queries", "ids"]);

/** One thing that is wrong with a request: `pointer` is a JSON pointer into its body ("#/items/3/vector"). */
export interface Problem {
  pointer: string;
  detail: string;
}

/** The index of the item, query or id that a problem is about, or null. */
export function positionOf(problem: { pointer: string }): number | null {
  const [, batch, position] = problem.pointer.split("/");
  return batch !== undefined && BATCHES.has(batch) && position !== undefined && /^\d+$/.test(position) ? Number(position) : null;
}

/** The same problem, its position counted from `offset` items further back. */
export function shifted<Told extends { pointer: string }>(problem: Told, offset: number): Told {
  const position = positionOf(problem);
  if (position === null || offset === 0) return problem;
  const parts = problem.pointer.split("/");
  parts[2] = String(position + offset);
  return { ...problem, pointer: parts.join("/") };
}

/** Root of the tree. */
export class KinbinClientError extends Error {
  override name = "KinbinClientError";
  /**
   * Set when a call that was cut into several requests (an add of many items) fails: the first so many items had been acknowledged
   * by the service, durably, before the request that failed. null for every other call.
   */
  acknowledged: number | null = null;

  /** Say how many items of an add had been acknowledged. */
  after(acknowledged: number): this {
    this.acknowledged = acknowledged;
    if (acknowledged > 0) {
      this.message += ` (${acknowledged} items of this add had been acknowledged; the failed request began at item ${acknowledged})`;
    }
    return this;
  }
}

/** An argument cannot be put into a request; that request was not sent. */
export class InvalidArgument extends KinbinClientError {
  override name = "InvalidArgument";

  /**
   * @param position index of the offending item in the batch, or null
   * @param code the one that the service would have answered with, or null where only the client could refuse
   */
  constructor(
    message: string,
    readonly position: number | null = null,
    readonly code: string | null = null,
  ) {
    super(position === null ? message : `item ${position}: ${message}`);
  }
}

/** The client was closed; make another one. */
export class ClientClosed extends KinbinClientError {
  override name = "ClientClosed";

  constructor() {
    super("the client is closed");
  }
}

/** What the service told with an error. */
export interface Refusal {
  status: number;
  /** The service's code, or null in an error that Kinbin did not write itself (a proxy did). */
  code: string | null;
  detail: string;
  errors?: Problem[];
  /** The name of the limit that was passed. */
  limit?: string | null;
  /** Milliseconds after which to come back. */
  retryAfter?: number | null;
  requestId?: string | null;
}

/** The service answered with a status of 400 or more. */
export class ApiError extends KinbinClientError {
  override name = "ApiError";
  readonly status: number;
  readonly code: string | null;
  readonly detail: string;
  readonly limit: string | null;
  readonly retryAfter: number | null;
  readonly requestId: string | null;
  #errors: Problem[];

  constructor(refusal: Refusal) {
    super();
    this.status = refusal.status;
    this.code = refusal.code;
    this.detail = refusal.detail;
    this.limit = refusal.limit ?? null;
    this.retryAfter = refusal.retryAfter ?? null;
    this.requestId = refusal.requestId ?? null;
    this.#errors = refusal.errors ?? [];
    this.#tell();
  }

  /** What is wrong with the request, and where. */
  get errors(): readonly Problem[] {
    return this.#errors;
  }

  /** Count the positions from the start of the whole batch, not of one request of it. */
  shift(offset: number): this {
    this.#errors = this.#errors.map((problem) => shifted(problem, offset));
    this.#tell();
    return this;
  }

  #tell(): void {
    // What the detail says already is not said again, but its place is.
    const places = this.#errors.map(({ pointer, detail }) =>
      this.detail.startsWith(detail.replace(/…$/, "")) ? pointer : `${pointer}: ${detail}`,
    );
    this.message = `${this.status} ${this.code ?? "error"}: ${this.detail}${places.length > 0 ? ` [${places.join("; ")}]` : ""}`;
  }
}

/** 400, and any other 4xx without a class of its own. */
export class BadRequest extends ApiError {
  override name = "BadRequest";
}

/** 401: no API key, or an unknown one. */
export class Unauthorized extends ApiError {
  override name = "Unauthorized";
}

/** 403: the key may not do this. */
export class Forbidden extends ApiError {
  override name = "Forbidden";
}

/** 404: no such collection, or no such route. */
export class NotFound extends ApiError {
  override name = "NotFound";
}

/** 409: it exists already, or dimension or kernel differ; nothing was written. */
export class Conflict extends ApiError {
  override name = "Conflict";
}

/** 413: the body is over the limit of the service or of a proxy before it. */
export class TooLarge extends ApiError {
  override name = "TooLarge";
}

/** 415: the service does not read this content type. */
export class UnsupportedMedia extends ApiError {
  override name = "UnsupportedMedia";
}

/** 422: `errors` says what is wrong, and where; nothing was written. */
export class InvalidInput extends ApiError {
  override name = "InvalidInput";
}

/** 429: too many requests; `retryAfter` says when to come back. Nothing was done. */
export class RateLimited extends ApiError {
  override name = "RateLimited";
}

/** A 5xx answer. */
export class ServerError extends ApiError {
  override name = "ServerError";
}

/** 503: the service is starting, stopping or overloaded; `retryAfter` says when to come back. */
export class Unavailable extends ServerError {
  override name = "Unavailable";
}

/** 507: the storage of the service is full; nothing was written, queries go on. */
export class StorageFull extends ServerError {
  override name = "StorageFull";
}

/**
 * An answer that is not what the service documents: a proxy's page, truncated JSON, a redirect.
 *
 * `excerpt` is the beginning of its body. Whether the work was done is not known, except that a redirect never did it.
 */
export class UnexpectedResponse extends KinbinClientError {
  override name = "UnexpectedResponse";

  constructor(
    message: string,
    readonly status: number,
    readonly contentType = "",
    readonly excerpt = "",
  ) {
    super(`${message} (status ${status}, ${contentType || "no content type"})${excerpt && `: ${excerpt}`}`);
  }
}

/** No answer arrived. */
export class TransportError extends KinbinClientError {
  override name = "TransportError";

  /** @param outcomeUnknown the service may have done the work all the same */
  constructor(
    message: string,
    readonly outcomeUnknown = true,
    options?: ErrorOptions,
  ) {
    super(message, options);
  }
}

/** No answer in time. */
export class Timeout extends TransportError {
  override name = "Timeout";

  /** A class has one parent here; ConnectTimeout, whose parent is ConnectionFailed, is a Timeout all the same. */
  static override [Symbol.hasInstance](error: unknown): boolean {
    return Function.prototype[Symbol.hasInstance].call(this, error) || (this === Timeout && error instanceof ConnectTimeout);
  }
}

/** No connection could be made: nothing was sent. */
export class ConnectionFailed extends TransportError {
  override name = "ConnectionFailed";

  constructor(message: string, options?: ErrorOptions) {
    super(message, false, options);
  }
}

/** No connection could be made in time: nothing was sent. It is a Timeout, too. */
export class ConnectTimeout extends ConnectionFailed {
  override name = "ConnectTimeout";
}

/** The connection broke after the request had begun; or before, where fetch does not say which (browsers do not). */
export class ConnectionLost extends TransportError {
  override name = "ConnectionLost";
}
