/**
 * The only module that calls fetch: requests out, replies or translated errors in.
 *
 * Redirects are not followed, so that an API key goes to the given address only.
 */
import { ClientClosed, ConnectionFailed, ConnectionLost, ConnectTimeout, InvalidArgument, Timeout, UnexpectedResponse } from "./errors.js";
import type { KinbinClientError } from "./errors.js";
import type { Reply } from "./replies.js";
import { OwnWrites } from "./own.js";
import { checkedRetry, type Repeat, type Retry } from "./retry.js";
import { VERSION } from "./version.js";

/** One HTTP request without address and credentials. */
export interface Request {
  method: "GET" | "POST" | "PUT" | "DELETE";
  path: string;
  body?: string | Uint8Array | Blob | FormData | ReadableStream<Uint8Array>;
  headers?: Record<string, string>;
  /** When it may be sent again; always, if nothing is said. */
  repeat?: Repeat;
  /** Milliseconds of silence, in the place of the client's. */
  timeout?: number;
}

/** Where and how a client asks. */
export interface ClientOptions {
  /** Sent as `Authorization: Bearer` with every request, and nowhere else. */
  apiKey?: string | undefined;
  /** Milliseconds of silence after which an attempt is given up. Default 30,000. */
  timeout?: number | undefined;
  retry?: Retry | undefined;
  /** Sent with every request. */
  headers?: Record<string, string> | undefined;
  /** Of a cluster: every read waits until the shards have applied what this client wrote to that name before. Default false. */
  readYourWrites?: boolean | undefined;
  /** In the place of the global one: for tests, proxies and agents. */
  fetch?: typeof globalThis.fetch | undefined;
}

/** Where a client asks that is given no address. */
export const DEFAULT_ADDRESS = "http://127.0.0.1:8080";
const DEFAULT_TIMEOUT = 30_000;

/** What Node's fetch says, without a code, of a port that it asks nobody at. */
const BLOCKED_PORT = "bad port";

/** What Node's fetch says of a connection that could not be made. */
const NO_CONNECTION = new Set([
  BLOCKED_PORT,
  "ECONNREFUSED",
  "ENOTFOUND",
  "EAI_AGAIN",
  "EHOSTUNREACH",
  "ENETUNREACH",
  "EADDRNOTAVAIL",
  "ERR_TLS_CERT_ALTNAME_INVALID",
  "DEPTH_ZERO_SELF_SIGNED_CERT",
  "SELF_SIGNED_CERT_IN_CHAIN",
  "UNABLE_TO_VERIFY_LEAF_SIGNATURE",
  "CERT_HAS_EXPIRED",
]);
const TIMED_OUT = new Set(["UND_ERR_HEADERS_TIMEOUT", "UND_ERR_BODY_TIMEOUT", "ETIMEDOUT"]);

/** An answer whose body is still to be read. */
export interface Opened {
  status: number;
  headers: Headers;
  /** The pieces of the body; ends the request when it is left early. */
  pieces: AsyncGenerator<Uint8Array<ArrayBuffer>, void, undefined>;
}

/** Sends requests, one by one or many at once. */
export class Sender {
  readonly address: string;
  readonly timeout: number;
  readonly retry: Required<Retry>;
  /** What the client wrote, if its reads wait for that. */
  readonly own: OwnWrites | null;
  readonly #headers: Record<string, string>;
  readonly #fetch: typeof globalThis.fetch;
  readonly #closing = new AbortController();

  constructor(url: string, options: ClientOptions) {
    this.address = checkedAddress(url);
    this.timeout = checkedTimeout(options.timeout) ?? DEFAULT_TIMEOUT;
    this.retry = checkedRetry(options.retry);
    this.own = options.readYourWrites ? new OwnWrites() : null;
    this.#headers = { accept: "application/json", ...ofNode(), ...lowered(options.headers), ...credentials(options.apiKey) };
    this.#fetch = options.fetch ?? globalThis.fetch.bind(globalThis);
  }

  /** End what is under way; every further request throws ClientClosed. */
  close(): void {
    this.#closing.abort();
  }

  /** The whole reply to a request, whatever its status. */
  async send(request: Request, timeout: number | undefined, signal: AbortSignal | undefined): Promise<Reply> {
    const { status, headers, pieces } = await this.open(request, timeout, signal);
    return { status, headers, body: await whole(pieces) };
  }

  /** The reply to a request as soon as its headers are there. */
  async open(request: Request, timeout: number | undefined, signal: AbortSignal | undefined): Promise<Opened> {
    const watch = new Watch(timeout ?? request.timeout ?? this.timeout, [this.#closing.signal, signal]);
    try {
      const response = await this.#fetch(`${this.address}${request.path}`, this.#init(request, watch.signal));
      // Of a redirect browsers tell no more than that it was one.
      if (response.type === "opaqueredirect") throw new UnexpectedResponse("the service redirected, and redirects are not followed", 302);
      watch.touch();
      return { status: response.status, headers: response.headers, pieces: this.#pieces(response, watch, signal) };
    } catch (error) {
      watch.end();
      throw this.#translated(error, watch, signal);
    }
  }

  #init({ method, body, headers }: Request, signal: AbortSignal): RequestInit {
    const init: RequestInit & { duplex?: "half" } = {
      method,
      signal,
      headers: { ...this.#headers, ...headers },
      redirect: "manual",
      cache: "no-store",
      credentials: "omit",
    };
    if (body !== undefined) init.body = body as BodyInit;
    if (body instanceof ReadableStream) init.duplex = "half";
    return init;
  }

  async *#pieces(
    response: Response,
    watch: Watch,
    signal: AbortSignal | undefined,
  ): AsyncGenerator<Uint8Array<ArrayBuffer>, void, undefined> {
    const reader = response.body?.getReader();
    try {
      while (reader !== undefined) {
        const { done, value } = await reader.read();
        if (done) return;
        // Whoever takes the piece may be slow: only the service's silence counts.
        watch.rest();
        yield value;
        watch.touch();
      }
    } catch (error) {
      throw this.#translated(error, watch, signal);
    } finally {
      watch.end();
      await reader?.cancel().catch(() => undefined);
    }
  }

  /** The client's error for one of fetch; the reason of the caller's signal for itself. */
  #translated(error: unknown, watch: Watch, signal: AbortSignal | undefined): unknown {
    if (this.#closing.signal.aborted) return new ClientClosed();
    if (signal?.aborted) return signal.reason;
    if (watch.timedOut)
      return new Timeout(`${this.address}: no answer in time (${watch.milliseconds} ms of silence)`, true, { cause: error });
    return error instanceof TypeError || codeOf(error) !== "" ? translated(error, this.address) : error;
  }
}

/** The client's error for a failure of fetch, by the code that Node gives its cause; browsers give none. */
export function translated(error: unknown, address: string): KinbinClientError {
  const code = codeOf(error);
  const cause = { cause: error };
  if (code === "UND_ERR_CONNECT_TIMEOUT") return new ConnectTimeout(`${address}: no connection in time`, cause);
  if (NO_CONNECTION.has(code)) return new ConnectionFailed(`${address}: no connection (${code})`, cause);
  if (TIMED_OUT.has(code)) return new Timeout(`${address}: no answer in time (${code})`, true, cause);
  const said = code || (error instanceof Error ? error.message : "");
  return new ConnectionLost(`${address}: the connection broke, or was not made${said && ` (${said})`}`, true, cause);
}

function codeOf(error: unknown): string {
  for (let one: unknown = error; typeof one === "object" && one !== null; one = "cause" in one ? one.cause : null) {
    const inner: unknown = "errors" in one && Array.isArray(one.errors) ? one.errors[0] : null;
    for (const candidate of [one, inner]) {
      if (typeof candidate === "object" && candidate !== null && "code" in candidate && typeof candidate.code === "string")
        return candidate.code;
    }
    if (one instanceof Error && one.message === BLOCKED_PORT) return BLOCKED_PORT;
  }
  return "";
}

/** Ends one attempt: after too long a silence, or by one of several signals. (AbortSignal.any is newer than Node 18.) */
class Watch {
  timedOut = false;
  readonly #controller = new AbortController();
  readonly #signals: AbortSignal[];
  readonly #abort = (): void => this.#controller.abort();
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(
    readonly milliseconds: number,
    signals: (AbortSignal | undefined)[],
  ) {
    this.#signals = signals.filter((signal) => signal !== undefined);
    for (const signal of this.#signals) signal.addEventListener("abort", this.#abort);
    if (this.#signals.some((signal) => signal.aborted)) this.#abort();
    this.touch();
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** Count the silence from now on. */
  touch(): void {
    this.rest();
    if (this.milliseconds === Infinity || this.signal.aborted) return;
    const late = (): void => {
      this.timedOut = true;
      this.#abort();
    };
    this.#timer = setTimeout(late, Math.min(this.milliseconds, LONGEST_TIMER));
  }

  /** Count it no more, until the next touch. */
  rest(): void {
    clearTimeout(this.#timer);
  }

  end(): void {
    this.rest();
    for (const signal of this.#signals) signal.removeEventListener("abort", this.#abort);
  }
}

/** A longer one would end at once. */
const LONGEST_TIMER = 2 ** 31 - 1;

async function whole(pieces: AsyncIterable<Uint8Array<ArrayBuffer>>): Promise<Uint8Array<ArrayBuffer>> {
  const held: Uint8Array<ArrayBuffer>[] = [];
  let size = 0;
  for await (const piece of pieces) {
    held.push(piece);
    size += piece.length;
  }
  if (held.length === 1 && held[0] !== undefined) return held[0];
  const body = new Uint8Array(size);
  let at = 0;
  for (const piece of held) {
    body.set(piece, at);
    at += piece.length;
  }
  return body;
}

/** Milliseconds; InvalidArgument for what is no time. */
export function checkedTimeout(timeout: number | undefined): number | undefined {
  if (timeout === undefined || timeout > 0) return timeout;
  throw new InvalidArgument(`a timeout is a number of milliseconds above 0, or Infinity, not ${timeout}`);
}

function checkedAddress(url: string): string {
  let parsed: URL;
  try {
    parsed = new URL(url);
  } catch {
    throw new InvalidArgument("this is no address; it looks like http://127.0.0.1:8080");
  }
  if (parsed.protocol !== "http:" && parsed.protocol !== "https:")
    throw new InvalidArgument("an address begins with http:// or https:// and a host");
  if (parsed.username || parsed.password)
    throw new InvalidArgument("an address holds no user name or password: give the API key as apiKey");
  if (parsed.search || parsed.hash) {
    throw new InvalidArgument("an address has no query string and no fragment: what stands there is written to logs");
  }
  return parsed.href.replace(/\/+$/, "");
}

function credentials(apiKey: string | undefined): Record<string, string> {
  if (apiKey === undefined) return {};
  if (!/^[!-~]([ -~]*[!-~])?$/.test(apiKey)) {
    throw new InvalidArgument("an API key is one line of printable ASCII characters, without spaces around it");
  }
  return { authorization: `Bearer ${apiKey}` };
}

/** Browsers set these by themselves. Packing takes longer than a fast network does: who has a slow one asks for it by `headers`. */
function ofNode(): Record<string, string> {
  return "process" in globalThis ? { "accept-encoding": "identity", "user-agent": `kinbin-client-typescript/${VERSION}` } : {};
}

function lowered(headers: Record<string, string> | undefined): Record<string, string> {
  return Object.fromEntries(Object.entries(headers ?? {}).map(([name, value]) => [name.toLowerCase(), value]));
}
