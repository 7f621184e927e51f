/**
 * A refusal that was not heard: a service that stops reading a large body breaks the connection under the sender, and fetch, unlike
 * other clients of HTTP, then gives the answer up that came before. So the limit is asked for, in the place of sending the body again.
 */
import { ConnectionLost, TooLarge } from "./errors.js";
import { parsed } from "./replies.js";
import type { Request, Sender } from "./transport.js";
import type { CallOptions, Schemas } from "./types.js";

/** Smaller bodies are on their way before anybody stops reading. */
const LARGE = 1 << 20;

const LIMITS: readonly (readonly [RegExp, string])[] = [
  [/\/index\?(.*&)?stream=true/, ""], // has no limit as a whole
  [/\/index(\?|$)/, "index_body_bytes"],
  [/\/query(\?|$)/, "query_body_bytes"],
  [/^\/v1\/restore(\?|$)/, "restore_body_bytes"],
  [/^/, "body_bytes"],
];

/** What the service refused a request with whose connection broke, if its body is larger than the service takes; else null. */
export async function unheard(error: unknown, sender: Sender, request: Request, call: CallOptions): Promise<TooLarge | null> {
  const size = error instanceof ConnectionLost ? sizeOf(request.body) : 0;
  if (size < LARGE) return null;
  const name = LIMITS.find(([route]) => route.test(request.path))?.[1];
  try {
    const reply = await sender.send({ method: "GET", path: "/v1/limits" }, call.timeout, call.signal);
    const limit = parsed<Schemas["LimitsAnswer"]>(reply, "limits").limits.find((one) => one.name === name);
    if (limit === undefined || size <= limit.value) return null;
    return new TooLarge({
      status: 413,
      code: "body_too_large",
      detail: `the body has ${size} bytes, the service takes ${limit.value}`,
      limit: limit.name,
    });
  } catch {
    return null;
  }
}

function sizeOf(body: Request["body"]): number {
  if (typeof body === "string") return body.length < LARGE / 3 ? body.length : new TextEncoder().encode(body).length;
  if (body instanceof Blob) return body.size;
  return body instanceof Uint8Array ? body.length : 0;
}
