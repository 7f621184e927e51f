/** What a collection tells of its items: why one scores what it scores, which are near duplicates, and how they lie. */
import { ConnectionLost, InvalidArgument } from "./errors.js";
import { toJson } from "./json.js";
import { Named } from "./named.js";
import { problemError } from "./replies.js";
import { asRead, idOf, jsonRequest, post, split, subject } from "./requests.js";
import { lines } from "./send.js";
import { LONG } from "./snapshots.js";
import type { Request } from "./transport.js";
import type { CallOptions, Filter, Given, Id, Payload, ReadOptions, Schemas, Vector } from "./types.js";

/** A term of an explanation: all parts, with those of `rest` and `constants`, add up to `sum`. */
export type Term = Omit<Schemas["TermOut"], "feature"> & {
  /** bigint where no number holds it, as of tokens. */
  feature?: number | bigint | null;
};

/** One factor of a score, which is a product of them. */
export type Factor = Omit<Schemas["FactorOut"], "terms"> & { terms: Term[] };

/** Why an item scores what it scores. */
export type Explanation = Omit<Schemas["ExplainAnswer"], "terms" | "factors"> & { terms: Term[]; factors: Factor[] | null };

/** What an explanation is asked for besides. */
export type ExplainOptions = Omit<Schemas["ExplainRequest"], "vector" | "string" | "series" | "points" | "image" | "query_id" | "id">;

/** A sample of the items in the plane; payloads hold the fields that were asked for. */
export type ItemMap<P extends object = Payload> = Omit<Schemas["MapAnswer"], "points"> & {
  points: (Omit<Schemas["MapPointOut"], "payload"> & { payload?: Partial<P> | null })[];
};

export type MapOptions = Omit<Schemas["MapRequest"], "filter"> & { filter?: Filter | null };

/** Two items that are near each other, with their exact score. */
export type Pair = Schemas["PairAnswer"];

/** Items that hang together by near pairs: `keep` is the first of the ids. */
export type Cluster = Schemas["ClusterAnswer"];

/** What is known of a search for duplicates: `miss_probability` is the most that it is, of each pair, to be overlooked. */
export type DuplicatesSummary = Pick<Schemas["PairsAnswer"], "miss_probability" | "compared" | "complete">;

/** Either form of duplicates. */
export type Form = NonNullable<Schemas["DuplicatesRequest"]["as"]>;
/** What is found, in one of the forms. */
export type Found<F extends Form> = F extends "pairs" ? Pair : Cluster;

export type DuplicatesOptions<F extends Form> = Omit<Schemas["DuplicatesRequest"], "as" | "filter"> & {
  /** Default "pairs". */
  as?: F;
  filter?: Filter | null;
};

/** Duplicates one by one. `summary` is what is known of the search as soon as it is done; null before, and after an end that was early. */
export type DuplicateStream<F extends Form = "pairs"> = AsyncGenerator<Found<F>, DuplicatesSummary, undefined> & {
  readonly summary: DuplicatesSummary | null;
};

const ASKED =
  'explain takes what is asked for first, then the id of the item: explain([0.1, 0, 2.5], "a"), explain({ string: "kitten" }, "a"), or explain({ query_id: "b" }, "a")';

/** A search for duplicates takes longer than a query does. */
const DUPLICATES = 120_000;

export abstract class Insights<P extends object = Payload> extends Named<P> {
  /**
   * Why the item of an id scores what it scores with a vector or object, or with the stored item `query_id`: terms that add up to it.
   *
   * Usage: `(await photos.explain([0.1, 0, 2.5], "a", { limit: 20 })).terms`, `await photos.explain({ query_id: "b" }, "a")`
   */
  async explain(
    asked: Vector | Given | { readonly query_id: Id },
    id: Id,
    options: ExplainOptions & ReadOptions = {},
  ): Promise<Explanation> {
    const { call, fields } = split(asRead(options));
    if (typeof asked !== "object" || asked === null) throw new InvalidArgument(ASKED, null, "bad_parameter");
    const byId = "query_id" in asked;
    const about = byId ? `"query_id":${toJson(idOf((asked as { query_id: Id }).query_id), "id")}` : await subject(asked as Vector | Given);
    const body = `{${about},${toJson({ ...fields, id: idOf(id) }, "request").slice(1)}`;
    return this.ask<Explanation>(jsonRequest("POST", `${this.path}/explain`, body), call, "score", "terms");
  }

  /**
   * A sample of the items in the plane, near where the kernel says near. The service needs scikit-learn for it.
   *
   * Usage: `(await photos.map({ sample: 500, fields: ["label"] })).points`
   */
  async map(options: MapOptions & CallOptions = {}): Promise<ItemMap<P>> {
    const { call, fields } = split(options, "map({ sample: 500 })");
    return this.ask<ItemMap<P>>(post(`${this.path}/map`, fields), call, "points");
  }

  /**
   * All pairs of items that score so much, or the clusters that they make, with exact scores.
   *
   * Usage: `(await photos.duplicates({ min_score: 0.9 })).pairs`, `(await photos.duplicates({ min_score: 0.9, as: "clusters" })).clusters`
   */
  async duplicates<F extends Form = "pairs">(
    options: DuplicatesOptions<F> & CallOptions,
  ): Promise<F extends "pairs" ? Schemas["PairsAnswer"] : Schemas["ClustersAnswer"]> {
    const { call, fields } = split(options, "duplicates({ min_score: 0.9 })");
    return this.ask({ ...post(`${this.path}/duplicates`, fields), timeout: DUPLICATES }, call, (options.as ?? "pairs") as never);
  }

  /**
   * The same one by one, as they are found, however many there are. What is known of the search is the `summary` of the stream, after its
   * last value.
   *
   * ConnectionLost if the service ends before it is done: then there may be more.
   *
   * Usage:
   *     const stream = photos.duplicatesStream({ min_score: 0.9 });
   *     for await (const { a, b, score } of stream) console.log(a, b, score);
   *     console.log(stream.summary?.miss_probability);
   */
  duplicatesStream<F extends Form = "pairs">(options: DuplicatesOptions<F> & CallOptions): DuplicateStream<F> {
    const told = { summary: null as DuplicatesSummary | null };
    const stream = this.#found(options, (summary) => (told.summary = summary));
    return Object.defineProperty(stream, "summary", { get: () => told.summary, enumerable: true }) as DuplicateStream<F>;
  }

  async *#found<F extends Form>(
    options: DuplicatesOptions<F> & CallOptions,
    done: (summary: DuplicatesSummary) => void,
  ): AsyncGenerator<Found<F>, DuplicatesSummary, undefined> {
    const { call, fields } = split(options, "duplicatesStream({ min_score: 0.9 })");
    const request: Request = { ...post(`${this.path}/duplicates`, fields), timeout: LONG };
    for await (const line of lines(this.sender, request, call)) {
      const told = line as Found<F> & Partial<DuplicatesSummary> & { error?: unknown };
      if (told.error !== undefined) throw problemError(told.error) ?? new ConnectionLost(`${this.sender.address}: the search was ended`);
      if (told.miss_probability !== undefined) {
        done(told as DuplicatesSummary);
        return told as DuplicatesSummary;
      }
      yield told;
    }
    throw new ConnectionLost(`${this.sender.address}: the answer ended before its last line`);
  }
}
