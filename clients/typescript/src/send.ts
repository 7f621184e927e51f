/** Requests sent, again where that is safe and may help, with the pauses between. */
import { ApiError, ConnectionLost, InvalidArgument, KinbinClientError, UnexpectedResponse } from "./errors.js";
import { fromJson } from "./json.js";
import { waiting } from "./own.js";
import { unheard } from "./refusals.js";
import { checkedObject } from "./requests.js";
import { contentType, errorOf, type Reply } from "./replies.js";
import { checkedRetry, mayRepeat, pauseOf } from "./retry.js";
import { checkedTimeout, type Opened, type Request, type Sender } from "./transport.js";
import type { CallOptions } from "./types.js";

/** What a request is answered with, parsed. */
export async function send<T>(sender: Sender, request: Request, parse: (reply: Reply) => T, call: CallOptions): Promise<T> {
  return repeated(sender, request, call, async (timeout) => {
    const once = (asked: Request): Promise<Reply> => sender.send(asked, timeout, call.signal);
    const waits = waiting(request, call.token);
    return parse(await (sender.own === null ? once(waits) : sender.own.send(waits, once)));
  });
}

/** Do something until it is done, or fails for good. */
async function repeated<T>(
  sender: Sender,
  request: Request,
  call: CallOptions,
  attempt: (timeout: number | undefined) => Promise<T>,
): Promise<T> {
  refuseUnknown(call);
  const rule = checkedRetry(call.retry, sender.retry);
  const timeout = checkedTimeout(call.timeout);
  for (let failures = 1; ; failures++) {
    try {
      return await attempt(timeout);
    } catch (error) {
      const refusal = await unheard(error, sender, request, call);
      if (refusal !== null) throw refusal;
      if (!(error instanceof KinbinClientError)) throw error;
      if (!mayRepeat(error, request.repeat ?? "always")) throw misled(error, sender.address);
      const pause = pauseOf(rule, failures, error instanceof ApiError ? error.retryAfter : null, Math.random());
      if (pause === null) throw error;
      await sleep(pause, call.signal);
    }
  }
}

/** Codes of a service that has no such route; null: of what is no Kinbin at all. */
const NO_ROUTE = new Set([null, "not_found", "method_not_allowed"]);

/** The same error; of an address with a path that leads to no route, it says that the path may be why. */
function misled(error: KinbinClientError, address: string): KinbinClientError {
  const { pathname, origin } = new URL(address);
  const noRoute = error instanceof ApiError && (error.status === 404 || error.status === 405) && NO_ROUTE.has(error.code);
  const page = error instanceof UnexpectedResponse && error.contentType === "text/html";
  if ((noRoute || page) && pathname !== "/")
    error.message += `; the client was given the address ${address}: is ${origin} meant, without ${pathname}?`;
  return error;
}

const OPTIONS = new Set(["signal", "timeout", "retry", "token"]);

/** An option that nobody reads may be one that changes what is done: InvalidArgument. */
function refuseUnknown(call: CallOptions): void {
  const unknown = Object.entries(checkedObject(call, "the options")).find(([name, value]) => !OPTIONS.has(name) && value !== undefined);
  if (unknown !== undefined) throw new InvalidArgument(`this call has no option ${JSON.stringify(unknown[0])}`, null, "bad_parameter");
}

/** Wait so many milliseconds; the reason of the signal as soon as it aborts. */
export function sleep(milliseconds: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    const ended = (): void => {
      clearTimeout(timer);
      reject(signal?.reason as Error);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", ended);
      resolve();
    }, milliseconds);
    if (signal?.aborted) ended();
    else signal?.addEventListener("abort", ended, { once: true });
  });
}

const NDJSON = "application/x-ndjson";

/**
 * The values of an answer of lines, each as it arrives. Sent again until the answer begins, never later.
 *
 * ConnectionLost if it breaks off in the middle of a line. Leaving the loop ends the request.
 */
export async function* lines(sender: Sender, request: Request, call: CallOptions): AsyncGenerator<unknown, void, undefined> {
  const asking = { ...request, headers: { accept: NDJSON, ...request.headers } };
  const opened = await repeated(sender, asking, call, (timeout) => opening(sender, asking, timeout, call.signal));
  const decoder = new TextDecoder();
  let rest = "";
  for await (const piece of opened.pieces) {
    const pieces = (rest + decoder.decode(piece, { stream: true })).split("\n");
    rest = pieces.pop() ?? "";
    for (const line of pieces) if (line.trim() !== "") yield value(line, opened);
  }
  rest += decoder.decode();
  if (rest.trim() !== "") {
    // A last line needs no end, but half a line is none.
    try {
      yield fromJson(rest);
    } catch {
      throw new ConnectionLost(`${sender.address}: the answer ended in the middle of a line`);
    }
  }
}

async function opening(sender: Sender, request: Request, timeout: number | undefined, signal: AbortSignal | undefined): Promise<Opened> {
  const opened = await sender.open(request, timeout, signal);
  if (opened.status >= 200 && opened.status < 300 && contentType(opened.headers) === NDJSON) return opened;
  const held: number[] = [];
  for await (const piece of opened.pieces) held.push(...piece.subarray(0, 65_536));
  const reply = { status: opened.status, headers: opened.headers, body: Uint8Array.from(held) };
  throw errorOf(reply) ?? new UnexpectedResponse("an answer of lines was asked for", reply.status, contentType(reply.headers));
}

function value(line: string, { status, headers }: Opened): unknown {
  try {
    return fromJson(line);
  } catch {
    throw new UnexpectedResponse("a line of the answer is no JSON", status, contentType(headers), line.slice(0, 200));
  }
}
