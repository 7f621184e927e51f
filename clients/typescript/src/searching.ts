/** Queries: one, many, by examples, and as a stream. */
import { Adding } from "./adding.js";
import { askedParts, checkedAnswers, chunksOf, each, queriesARequest, queryParts, totalOf, type Chunk, type Many } from "./chunks.js";
import { InvalidArgument } from "./errors.js";
import { toJson } from "./json.js";
import { npyFile, rowsOf, type Matrix, type MatrixQueryOptions } from "./matrices.js";
import { checkedOptions } from "./options.js";
import { asRead, exampleList, idOf, jsonRequest, positiveList, queryString, split, subject, withIds } from "./requests.js";
import type {
  Answer,
  Asked,
  BatchAnswer,
  CallOptions,
  Chunking,
  Example,
  FieldsOptions,
  Id,
  PartialOptions,
  Partly,
  Payload,
  Query,
  QueryOptions,
  ReadOptions,
  TimedAnswer,
} from "./types.js";

export abstract class Searchable<P extends object = Payload> extends Adding<P> {
  /**
   * The k nearest items of a vector or object, best first, with a lower bound on their recall or the reason why there is none.
   *
   * Usage:
   *     await photos.query([0.1, 0, 2.5], { k: 5, target_recall: 0.95 })
   *     await texts.query({ tokens: ["quick", "fox"] }, { filter: { year: { $gte: 2020 } }, include: ["payload"] })
   *     await words.query({ string: "sitting" }, { max_distance: 3 })
   *     await pictures.query({ vectors: { colour: [0.1, 0, 2.5] }, weights: { colour: 0.7 } })
   */
  async query(asked: Asked, options: QueryOptions & ReadOptions = {}): Promise<TimedAnswer<P>> {
    const { call, fields } = split(asRead(options));
    return this.#one(`{${await subject(asked)}${more(await withIds(fields))}`, call);
  }

  /**
   * The k nearest items of a stored item, without itself unless `include_self`; NotFound with code "unknown_id" if it is not there.
   *
   * Usage: `await photos.queryId("a", { k: 5 })`
   */
  async queryId(id: Id, options: QueryOptions & FieldsOptions & ReadOptions = {}): Promise<TimedAnswer<P>> {
    const { call, fields } = split(asRead(options));
    return this.#one(toJson({ ...(await withIds(fields)), id: idOf(id) }, "query"), call);
  }

  /**
   * The k items of the greatest mean score with the positive examples, less their mean score with the negative ones.
   *
   * Examples are ids of stored items, vectors, or objects. Items that are examples are left out, unless `include_self` keeps them.
   *
   * Usage: `await photos.queryExamples(["a", [0.1, 0, 2.5]], ["b"], { k: 5 })`
   */
  async queryExamples(
    positive: readonly Example[],
    negative: readonly Example[] = [],
    options: QueryOptions & ReadOptions = {},
  ): Promise<TimedAnswer<P>> {
    const { call, fields } = split(asRead(options));
    const [near, far] = [await positiveList(positive), await exampleList(negative)];
    return this.#one(toJson({ positive: near, ...(far.length > 0 ? { negative: far } : {}), ...(await withIds(fields)) }, "query"), call);
  }

  /**
   * One answer for each of many vectors or objects, in their order; many travel in several requests.
   *
   * Usage: `for (const answer of (await photos.queryBatch(vectors, { k: 5 })).answers) console.log(answer.results)`
   */
  async queryBatch(queries: Many<Asked>, options: QueryOptions & FieldsOptions & ReadOptions & Chunking = {}): Promise<BatchAnswer<P>> {
    return gathered(await this.#batches(queries, options));
  }

  /**
   * The same for the rows of a matrix, which travel without JSON.
   *
   * Usage: `await photos.queryMatrix({ values: new Float32Array(512 * 100), columns: 512 }, { k: 5 })`
   */
  async queryMatrix(matrix: Matrix, options: MatrixQueryOptions & PartialOptions & ReadOptions & Chunking = {}): Promise<BatchAnswer<P>> {
    const { call, chunking, fields } = split(asRead(options));
    rowsOf(matrix);
    checkedOptions(fields);
    const path = `${this.scope.query}${queryString(fields)}`;
    const { maxItems = 1_000, maxBytes = 8 * 1024 * 1024 } = queriesARequest(chunking, fields);
    const most = Math.max(1, Math.min(maxItems, Math.floor(maxBytes / (matrix.columns * matrix.values.BYTES_PER_ELEMENT))));
    async function* runs(): AsyncGenerator<Chunk> {
      for (let start = 0; start < rowsOf(matrix); start += most) {
        yield { json: String(start), size: Math.min(most, rowsOf(matrix) - start), conditional: false };
      }
    }
    const act = ({ json, size }: Chunk): Promise<BatchAnswer<P>> => {
      const body = npyFile(matrix, Number(json), Number(json) + size);
      return this.ask({ method: "POST", path, body, headers: { "content-type": "application/x-npy" } }, call, "answers");
    };
    return gathered(each(runs(), { total: rowsOf(matrix), onProgress: chunking.onProgress, acknowledges: false }, act));
  }

  /**
   * One answer for each of many queries with options of their own, in their order; those of one request are of one snapshot.
   *
   * Usage: `await photos.queryEach([{ id: "a", k: 3 }, { vector: [0.1, 0, 2] }])`
   */
  async queryEach(queries: Many<Query>, options: PartialOptions & ReadOptions & Chunking = {}): Promise<BatchAnswer<P>> {
    const { call, chunking, fields } = split(asRead(options));
    const { allow_partial, ...others } = fields;
    const unknown = Object.keys(others)[0];
    if (unknown !== undefined)
      throw new InvalidArgument(`queryEach has no option ${JSON.stringify(unknown)}: each query has its own`, null, "bad_parameter");
    checkedOptions({ allow_partial });
    return gathered(
      this.#each(queries, chunksOf(queryParts(queries), chunking), allow_partial ? `{"allow_partial":true,` : "{", chunking, call),
    );
  }

  /**
   * One answer after the other for queries that come one after the other, in their order, with bounded memory.
   *
   * Usage: `for await (const answer of photos.queryStream(vectorsOf(file), { k: 5 })) console.log(answer.results)`
   */
  async *queryStream(
    queries: Many<Asked>,
    options: QueryOptions & FieldsOptions & ReadOptions & Chunking = {},
  ): AsyncGenerator<Answer<P>, void, undefined> {
    for await (const { result, chunk } of await this.#batches(queries, { maxItems: 100, ...options }))
      yield* checkedAnswers(result.answers, chunk.size);
  }

  async #batches(queries: Many<Asked>, options: QueryOptions & FieldsOptions & ReadOptions & Chunking): Promise<AsyncGenerator<Batch<P>>> {
    const { call, chunking, fields: given } = split(asRead(options));
    const fields = await withIds(given);
    const head = `{${toJson(fields, "query").slice(1, -1)}${isEmpty(fields) ? "" : ","}`;
    return this.#each(queries, chunksOf(askedParts(queries), queriesARequest(chunking, fields)), head, chunking, call);
  }

  #each(
    queries: Many<unknown>,
    chunks: AsyncIterable<Chunk>,
    head: string,
    chunking: Chunking,
    call: CallOptions,
  ): AsyncGenerator<Batch<P>> {
    const act = ({ json }: Chunk): Promise<BatchAnswer<P>> =>
      this.ask(jsonRequest("POST", this.scope.query, `${head}"queries":[${json}]}`), call, "answers");
    return each(chunks, { total: totalOf(queries), onProgress: chunking.onProgress, acknowledges: false }, act);
  }

  #one(body: string, call: CallOptions): Promise<TimedAnswer<P>> {
    return this.ask<TimedAnswer<P>>(jsonRequest("POST", this.scope.query, body), call, "results");
  }
}

interface Batch<P extends object> {
  result: BatchAnswer<P>;
  chunk: Chunk;
}

async function gathered<P extends object>(batches: AsyncIterable<Batch<P>>): Promise<BatchAnswer<P>> {
  const answers: Answer<P>[] = [];
  const missing = new Set<number>();
  let took_ms = 0;
  for await (const { result, chunk } of batches) {
    answers.push(...checkedAnswers(result.answers, chunk.size));
    took_ms += result.took_ms;
    for (const shard of result.shards_missing ?? []) missing.add(shard);
  }
  return { answers, took_ms, ...partly(missing) };
}

/** What an answer lacks that is made of several. */
export function partly(missing: ReadonlySet<number>): Partly {
  return missing.size > 0 ? { partial: true, shards_missing: [...missing].sort((one, other) => one - other) } : {};
}

function isEmpty(fields: object): boolean {
  return Object.values(fields).every((value) => value === undefined);
}

/** The rest of an object of JSON that has begun. */
function more(fields: object): string {
  const json = toJson(fields, "query").slice(1);
  return json === "}" ? json : `,${json}`;
}
