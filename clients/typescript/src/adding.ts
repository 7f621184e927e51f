/** Adds: items, matrices, images, and streams of lines. */
import { chunksOf, each, itemParts, totalOf, type Chunk, type Many } from "./chunks.js";
import { ConnectionLost, InvalidArgument, KinbinClientError, shifted } from "./errors.js";
import { Handle, type Scope } from "./handle.js";
import { toJson } from "./json.js";
import { headerStop, idsHeader, npyFile, rowsOf, type Matrix } from "./matrices.js";
import { joined } from "./own.js";
import { problemError } from "./replies.js";
import { checkedObject, idList, idOf, jsonRequest, listOf, queryString, split } from "./requests.js";
import { lines } from "./send.js";
import type { Request, Sender } from "./transport.js";
import type { AddOptions, AddResult, CallOptions, Id, NewItem, Payload, Receipt, Schemas, Written } from "./types.js";

/** Bad items of an add that are told one by one. */
const TOLD = 100;
/** The service takes 255 characters, of which the number of the request takes some. */
const LONGEST_KEY = 240;

/** The options of a stream of lines. */
export interface LinesOptions extends CallOptions {
  mode?: AddOptions["mode"];
  on_error?: AddOptions["on_error"];
  /** Of a stream that is resumed: how many lines were durable, and are not sent again. */
  after?: number | undefined;
  idempotencyKey?: string | undefined;
}

/** An image to be stored. */
export interface NewImage<P extends object = Payload> {
  readonly id: Id;
  /** A PNG, JPEG or WebP file. */
  readonly image: Blob;
  readonly payload?: P | null;
}

export abstract class Adding<P extends object = Payload> extends Handle {
  /** @internal */
  protected readonly scope: Scope;

  /** @internal */
  constructor(sender: Sender, scope: Scope) {
    super(sender);
    this.scope = scope;
  }

  /**
   * Add or replace items; they are durable and searchable on return.
   *
   * Many items travel in several requests, each of them atomic. When one fails, the error's `acknowledged` says how many items had been
   * acknowledged before it; with mode "upsert" the whole add may simply be called again, and with any mode with the same
   * `idempotencyKey`, for a day. Items may come from anything that is iterated over, awaited or not: memory is bounded by one request.
   *
   * Usage: `await photos.add([{ id: "a", vector: [0.1, 0, 2.5], payload: { year: 2020 } }])`
   */
  async add(items: Many<NewItem<P>>, options: AddOptions = {}): Promise<AddResult> {
    const { call, chunking, fields } = split(options);
    const { idempotencyKey, ...terms } = fields;
    const key = checkedKey(idempotencyKey);
    const head = `${toJson(terms, "options").slice(0, -1)}${Object.values(terms).some((one) => one !== undefined) ? "," : ""}"items":[`;
    const made: { key?: string } = key === undefined ? {} : { key };
    const act = ({ json, conditional }: Chunk, number: number): Promise<Written<Schemas["AddAnswer"]>> => {
      // Without a key these could not be sent again.
      if (conditional || (terms.mode ?? "upsert") !== "upsert") made.key ??= newKey();
      return this.#send(keyed(jsonRequest("POST", this.scope.index, `${head}${json}]}`), made.key, number), call);
    };
    const told = { total: totalOf(items), onProgress: chunking.onProgress, acknowledges: true };
    const sum = new Sum();
    for await (const { result, done } of each(chunksOf(itemParts(items as Many<NewItem<object>>), chunking), told, act))
      sum.add(result, done);
    // An add of nothing asks as well: of a collection that is not there, and so that an answer has its count.
    return sum.value ?? sum.add(await act({ json: "", size: 0, conditional: false }, 0), 0);
  }

  /**
   * Add the rows of a matrix as they lie in memory, without JSON. As `add` in everything else.
   *
   * @param ids one for each row; null: the service makes them, sorted by time and row
   *
   * Usage: `await rows.addMatrix(["a", "b"], { values: new Float32Array([0.1, 0, 2.5, 1, 2, 3]), columns: 3 })`
   */
  async addMatrix(ids: Iterable<Id> | null, matrix: Matrix, options: AddOptions = {}): Promise<AddResult> {
    const { call, chunking, fields } = split(options);
    const { idempotencyKey, ...terms } = fields;
    const rows = rowsOf(matrix);
    const names = ids === null ? null : idList(ids);
    if (names !== null && names.length !== rows) {
      throw new InvalidArgument(`${rows} vectors came with ${names.length} ids; send one for each`, null, "bad_parameter");
    }
    const upsert = (terms.mode ?? "upsert") === "upsert" && names !== null;
    const key = checkedKey(idempotencyKey) ?? (upsert ? undefined : newKey());
    const path = `${this.scope.index}${queryString(terms)}`;
    const act = ({ json, size }: Chunk, number: number): Promise<Written<Schemas["AddAnswer"]>> => {
      const start = Number(json);
      const headers: Record<string, string> = { "content-type": "application/x-npy" };
      if (names !== null) headers["x-kinbin-ids"] = idsHeader(names.slice(start, start + size));
      return this.#send(keyed({ method: "POST", path, body: npyFile(matrix, start, start + size), headers }, key, number), call);
    };
    const sum = new Sum();
    const told = { total: rows, onProgress: chunking.onProgress, acknowledges: true };
    for await (const { result, done } of each(rowChunks(matrix, names, chunking), told, act)) sum.add(result, done);
    if (sum.value === null) throw new InvalidArgument("a matrix has at least one row", null, "bad_parameter");
    return sum.value;
  }

  /**
   * Add images as the files they are, in one request.
   *
   * Usage: `await pictures.addImages([{ id: "a", image: await openAsBlob("a.jpg") }])`
   */
  async addImages(
    images: Iterable<NewImage<P>>,
    options: CallOptions & Pick<AddOptions, "mode" | "on_error" | "idempotencyKey"> = {},
  ): Promise<AddResult> {
    const { call, fields } = split(options);
    const { idempotencyKey, ...terms } = fields;
    const form = new FormData();
    const listed = listOf(images, "images").map((one, position) => {
      if (!(checkedObject(one, "an image", position).image instanceof Blob))
        throw new InvalidArgument("an image is a Blob", position, "bad_object");
      return { ...one, id: idOf(one.id, position) };
    });
    const about = listed.map(({ id, payload }) => (payload === undefined || payload === null ? { id } : { id, payload }));
    form.append("items", toJson(about, "list of images"));
    for (const { id, image } of listed) form.append("image", image, encodeURIComponent(id));
    const key = checkedKey(idempotencyKey) ?? ((terms.mode ?? "upsert") === "upsert" ? undefined : newKey());
    const request: Request = { method: "POST", path: `${this.scope.index}${queryString(terms)}`, body: form };
    return this.#send(keyed(request, key, 0), call).then((answer) => new Sum().add(answer, 0));
  }

  /**
   * Add any number of lines of NDJSON, an item each, and tell what is durable while they are sent.
   *
   * The service adds them in batches of at most 1,000, each one transaction. When it refuses a line, or the connection breaks, the error's
   * `acknowledged` says how many lines had been told as durable: send those that follow with `after` their number.
   * Browsers send a ReadableStream over HTTP/2 and TLS only; a Blob or a string goes everywhere.
   *
   * Usage: `for await (const receipt of photos.addLines(await openAsBlob("photos.ndjson"))) console.log(receipt.lines)`
   */
  async *addLines(
    body: string | Blob | Uint8Array | ReadableStream<Uint8Array>,
    options: LinesOptions = {},
  ): AsyncGenerator<Receipt, void, undefined> {
    const { call, fields } = split(options);
    const { idempotencyKey, ...terms } = fields;
    const key = checkedKey(idempotencyKey);
    if (typeof body !== "string" && !(body instanceof Blob || body instanceof Uint8Array || body instanceof ReadableStream))
      throw new InvalidArgument("lines are a string, a Blob, bytes, or a ReadableStream of bytes", null, "bad_parameter");
    const path = `${this.scope.index}${queryString({ stream: true, ...terms })}`;
    const again = key !== undefined || (terms.mode ?? "upsert") === "upsert" ? "always" : "if-not-done";
    const repeat = body instanceof ReadableStream ? "never" : again;
    const request: Request = { method: "POST", path, body, headers: { "content-type": "application/x-ndjson" }, repeat };
    let acknowledged = terms.after ?? 0;
    try {
      for await (const line of lines(this.sender, keyed(request, key, 0), call)) {
        const receipt = line as Receipt & { error?: unknown };
        acknowledged = receipt.lines ?? acknowledged;
        if (receipt.error !== undefined)
          throw problemError(receipt.error) ?? new ConnectionLost(`${this.sender.address}: the stream was ended`);
        yield receipt;
        if (receipt.done) return;
      }
      throw new ConnectionLost(`${this.sender.address}: the answer ended before its last line`);
    } catch (error) {
      throw error instanceof KinbinClientError ? error.after(acknowledged) : error;
    }
  }

  #send(request: Request, call: CallOptions): Promise<Written<Schemas["AddAnswer"]>> {
    return this.ask<Written<Schemas["AddAnswer"]>>(request, call, "indexed", "count");
  }
}

/** What several requests of one add did. */
class Sum {
  value: AddResult | null = null;

  /** Add the answer to a request that began at item `done`. */
  add(answer: Written<Schemas["AddAnswer"]>, done: number): AddResult {
    const before = this.value ?? {
      indexed: 0,
      updated: 0,
      unchanged: 0,
      count: 0,
      skipped: 0,
      problems: [],
      ids: null,
      token: null,
      took_ms: 0,
    };
    this.value = {
      indexed: before.indexed + answer.indexed,
      updated: before.updated + answer.updated,
      unchanged: before.unchanged + answer.unchanged,
      count: answer.count,
      skipped: before.skipped + (answer.skipped ?? 0),
      problems: [...before.problems, ...(answer.problems ?? []).map((problem) => shifted(problem, done))].slice(0, TOLD),
      ids: answer.ids ? [...(before.ids ?? []), ...answer.ids] : before.ids,
      token: joined(before.token, answer.token ?? null),
      took_ms: before.took_ms + answer.took_ms,
    };
    return this.value;
  }
}

/** Runs of rows that one request has room for. `json` is the first row. */
async function* rowChunks(
  matrix: Matrix,
  names: readonly string[] | null,
  chunking: { maxItems?: number | undefined; maxBytes?: number | undefined },
): AsyncGenerator<Chunk> {
  const { maxItems = 1_000, maxBytes = 8 * 1024 * 1024 } = chunking;
  const rows = rowsOf(matrix);
  const most = Math.max(1, Math.min(maxItems, Math.floor(maxBytes / (matrix.columns * matrix.values.BYTES_PER_ELEMENT))));
  for (let start = 0, stop = 0; start < rows; start = stop) {
    stop = Math.min(start + most, rows);
    if (names !== null) stop = headerStop(names, start, stop);
    yield { json: String(start), size: stop - start, conditional: false };
  }
}

/** The request under a key of its own, made of the one of the whole add. */
function keyed(request: Request, key: string | undefined, number: number): Request {
  if (key === undefined) return request;
  return { ...request, headers: { ...request.headers, "idempotency-key": number > 0 ? `${key}-${number}` : key } };
}

function checkedKey(key: string | undefined): string | undefined {
  if (key === undefined || (key.length <= LONGEST_KEY && /^[ -~]+$/.test(key))) return key;
  throw new InvalidArgument(`an idempotency key is a string of 1 to ${LONGEST_KEY} printable ASCII characters`, null, "bad_parameter");
}

/** 128 random bits; of Math.random where there is nothing better, as in Node 18: a key has to be new, not secret. */
function newKey(): string {
  const bytes = new Uint8Array(16);
  if ("crypto" in globalThis) globalThis.crypto.getRandomValues(bytes);
  else bytes.forEach((_, place) => (bytes[place] = Math.floor(256 * Math.random())));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
