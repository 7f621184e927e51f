/** How rows lie in bands: what other settings would find and take, what is found now, and a new layout. */
import { askedParts, chunksOf, type Many } from "./chunks.js";
import { toJson } from "./json.js";
import { InvalidArgument } from "./errors.js";
import { Insights } from "./insights.js";
import { checkedNames } from "./options.js";
import { checkedMany, jsonRequest, post, queryString, split } from "./requests.js";
import { LONG } from "./snapshots.js";
import type { Asked, CallOptions, Payload, Schemas } from "./types.js";

/** What recall is measured with besides queries. */
export type RecallOptions = Omit<Schemas["RecallRequest"], "queries">;

const OPTIONS_LAST =
  'recall takes its queries first: a number of stored rows, an array (or what else can be iterated over), or nothing; its options second, as recall(100, { modes: ["bands"] })';

/** Whether this is an object that is nothing to iterate over: options, which came first. */
const isOptions = (given: unknown): boolean =>
  typeof given === "object" && given !== null && !(Symbol.iterator in given) && !(Symbol.asyncIterator in given);

export abstract class Tuning<P extends object = Payload> extends Insights<P> {
  /**
   * What bands of so many hashes, and walks, would find and take, by a sample of the stored rows; nothing is changed.
   *
   * Usage: `(await photos.tune({ target_recall: 0.95 })).suggested`
   */
  async tune(options: Schemas["TuneRequest"] & CallOptions = {}): Promise<Schemas["TuneAnswer"]> {
    const { call, fields } = split(options, "tune({ k: 10 })");
    return this.ask(post(`${this.path}/tune`, fields), call, "suggested");
  }

  /**
   * Measured recall of every mode against an exact scan: with so many stored rows, or with the vectors or objects that are given.
   *
   * Usage: `(await photos.recall()).modes`, `await photos.recall(vectors, { k: 5, modes: ["auto", "bands"] })`
   */
  async recall(
    queries: number | Many<Asked> = 100,
    options: RecallOptions & { seed?: number } & CallOptions = {},
  ): Promise<Schemas["RecallAnswer"]> {
    const { call, fields } = split(options);
    checkedNames(fields.modes, "modes");
    if (typeof queries === "number") {
      return this.ask({ method: "GET", path: `${this.path}/recall${queryString({ queries, ...fields })}` }, call, "modes");
    }
    if (isOptions(queries)) throw new InvalidArgument(OPTIONS_LAST, null, "bad_parameter");
    checkedMany(queries, "queries");
    // One request: what is measured is of one moment.
    const whole = { maxItems: Infinity, maxBytes: Infinity };
    let listed = "";
    for await (const { json } of chunksOf(askedParts(queries), whole)) listed = json;
    const more = toJson(fields, "request").slice(1);
    return this.ask(jsonRequest("POST", `${this.path}/recall`, `{"queries":[${listed}]${more === "}" ? more : `,${more}`}`), call, "modes");
  }

  /**
   * Lay all rows out in other bands, while the collection is used; what is left out is chosen by Kinbin. Returns when it is done.
   *
   * Usage: `await photos.rebuild({ rows: 3, bands: 128 })`
   */
  async rebuild(options: Schemas["RebuildRequest"] & CallOptions = {}): Promise<Schemas["RebuildAnswer"]> {
    const { call, fields } = split(options, "rebuild({ rows: 3, bands: 128 })");
    // Not sent again when it may have been begun, for it takes long.
    return this.ask({ ...post(`${this.path}/rebuild`, fields, "if-not-done"), timeout: LONG }, call, "count");
  }
}
