/** Tokens of a cluster: joined, and kept of a client's own writes, for which its reads wait. */
import { fromJson } from "./json.js";
import type { Reply } from "./replies.js";
import type { Request } from "./transport.js";

const HEADER = "x-kinbin-after";
const OF_COLLECTION = /^\/v1\/collections\/([^/?]+)(?:\/([a-z]+))?(?:\?|$)/;
const SHORT = /^\/(index|query)(?:\?|$)/;
const READS = new Set(["", "query", "get", "scroll", "count", "facets", "explain", "limits"]);
const WRITES = new Set(["index", "delete", "payload", "indexes", "limits"]);

/** The request as one that waits for a token. */
export function waiting(request: Request, token: string | null | undefined): Request {
  return token === undefined || token === null ? request : { ...request, headers: { ...request.headers, [HEADER]: token } };
}

/**
 * One token for two of one collection, the later one last.
 *
 * Its form: base64url, without padding, of the JSON [uid, [[shard, sequence], …]]. Of other collections, or of another form, the last counts.
 */
export function joined(first: string | null, last: string | null): string | null {
  if (first === null || last === null) return last ?? first;
  const [before, since] = [read(first), read(last)];
  if (before === null || since === null || before.uid !== since.uid) return last;
  const shards = new Map(before.shards);
  for (const [shard, sequence] of since.shards) shards.set(shard, Math.max(sequence, shards.get(shard) ?? 0));
  const text = JSON.stringify([before.uid, [...shards].sort(([one], [other]) => one - other)]);
  return btoa(text).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
}

function read(token: string): { uid: string; shards: Map<number, number> } | null {
  try {
    const [uid, pairs] = JSON.parse(atob(token.replaceAll("-", "+").replaceAll("_", "/"))) as [string, [number, number][]];
    const shards = new Map(pairs);
    const whole = [...shards].every((pair) => pair.every((one) => Number.isSafeInteger(one)));
    return typeof uid === "string" && whole ? { uid, shards } : null;
  } catch {
    return null;
  }
}

/** The tokens of a client's own writes, by the name of the collection. */
export class OwnWrites {
  readonly #tokens = new Map<string, string>();

  /** The reply to a request, which waits for the writes before it if it is a read, and is remembered if it is a write. */
  async send(request: Request, once: (request: Request) => Promise<Reply>): Promise<Reply> {
    const [name, word] = place(request.path);
    if (name === null) return once(request);
    const known = this.#tokens.get(name) ?? null;
    const given = request.headers?.[HEADER] ?? null;
    const waits = known !== null && (request.method === "GET" || request.method === "POST") && READS.has(word);
    const reply = await once(waits ? waiting(request, joined(known, given)) : request);
    if (waits && given === null && (reply.status === 422 || reply.status === 400) && held(reply).code === "bad_parameter") {
      // The name leads elsewhere now: the alias was moved, or the collection is a new one.
      if (this.#tokens.get(name) === known) this.#tokens.delete(name);
      return once(request);
    }
    if (reply.status !== 200 || request.method === "GET") return reply;
    if (request.method === "DELETE" && word === "") this.#tokens.delete(name);
    if (WRITES.has(word)) this.#remember(name, held(reply).token);
    return reply;
  }

  #remember(name: string, token: unknown): void {
    const both = joined(this.#tokens.get(name) ?? null, typeof token === "string" ? token : null);
    if (both !== null) this.#tokens.set(name, both);
  }
}

/** The collection of a path, and what is done with it. */
function place(path: string): [string | null, string] {
  const found = OF_COLLECTION.exec(path);
  if (found !== null) return [found[1] ?? null, found[2] ?? ""];
  const short = SHORT.exec(path);
  return short === null ? [null, ""] : ["default", short[1] ?? ""];
}

function held(reply: Reply): { code?: unknown; token?: unknown } {
  try {
    const value = fromJson(new TextDecoder().decode(reply.body));
    return typeof value === "object" && value !== null ? value : {};
  } catch {
    return {};
  }
}
