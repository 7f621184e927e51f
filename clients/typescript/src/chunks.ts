/** Large adds and batches of queries, cut into requests. A piece is encoded when it is asked for. */
import { ApiError, InvalidArgument, KinbinClientError, UnexpectedResponse } from "./errors.js";
import { payloadJson, toJson } from "./json.js";
import { checkObject, checkVector } from "./options.js";
import { checkedMany, checkFields, checkedObject, idOf, isVector, subject, vectorJson, withIds, withText } from "./requests.js";
import type { Asked, Chunking, NewItem, Query } from "./types.js";

/** Anything to iterate over, awaited or not. */
export type Many<T> = Iterable<T> | AsyncIterable<T>;

/** One request's worth: the JSON of its parts with commas between, and how many they are. */
export interface Chunk {
  json: string;
  size: number;
  /** Whether one of its items is to have a version. */
  conditional: boolean;
}

interface Part {
  json: string;
  conditional: boolean;
}

const ITEMS = 1_000;
const BYTES = 8 * 1024 * 1024;
/** Hits that the service returns at most for one request (k times queries), without and with payloads or vectors. */
const ANSWER_ITEMS = 1_000_000;
const ANSWER_CONTENTS = 10_000;

/** The limits of one request; InvalidArgument for none. */
export function checkedChunking(chunking: Chunking): { maxItems: number; maxBytes: number } {
  const { maxItems = ITEMS, maxBytes = BYTES } = chunking;
  if (!(maxItems >= 1 && maxBytes >= 1)) throw new InvalidArgument("a chunk holds at least one item and one byte");
  return { maxItems, maxBytes };
}

/** How many queries of these options one request may hold. */
export function queriesARequest(chunking: Chunking, options: { k?: number; offset?: number; include?: readonly string[] }): Chunking {
  const most = options.include !== undefined && options.include.length > 0 ? ANSWER_CONTENTS : ANSWER_ITEMS;
  const hits = (options.k ?? 10) + (options.offset ?? 0);
  const fitting = hits >= 1 && hits <= most ? Math.floor(most / hits) : 1;
  return { ...chunking, maxItems: Math.min(checkedChunking(chunking).maxItems, fitting) };
}

/** Parts gathered into chunks within the limits. Nothing makes no chunk. */
export async function* chunksOf(parts: AsyncIterable<Part>, chunking: Chunking): AsyncGenerator<Chunk, void, undefined> {
  const { maxItems, maxBytes } = checkedChunking(chunking);
  let held: Part[] = [];
  let bytes = 0;
  const chunk = (): Chunk => ({
    json: held.map(({ json }) => json).join(","),
    size: held.length,
    conditional: held.some((part) => part.conditional),
  });
  for await (const part of parts) {
    const size = bytesOf(part.json) + 1;
    if (held.length > 0 && (held.length >= maxItems || bytes + size > maxBytes)) {
      yield chunk();
      [held, bytes] = [[], 0];
    }
    held.push(part);
    bytes += size;
  }
  if (held.length > 0) yield chunk();
}

function bytesOf(text: string): number {
  // Counted only where it may matter: a character has three bytes at most.
  return text.length < 256 ? text.length : new TextEncoder().encode(text).length;
}

/** Items as they travel. Of a list, an id that is there twice is refused at once: the service sees one request at a time. */
export async function* itemParts(items: Many<NewItem<object>>): AsyncGenerator<Part, void, undefined> {
  if (Array.isArray(items)) refuseDuplicates(items as NewItem<object>[]);
  let position = 0;
  for await (const item of checkedMany(items, "items")) {
    const { id, payload, if_version, ...content } = checkedObject(item, "an item", position);
    const head = `{"id":${toJson(idOf(id, position), "id", position, "bad_id")}`;
    const tail = payload === undefined || payload === null ? "" : `,"payload":${payloadJson(payload, position)}`;
    const conditional = if_version !== undefined && if_version !== null;
    const version = conditional ? `,"if_version":${toJson(if_version, "if_version", position)}` : "";
    if ("vector" in content) checkVector(content.vector, position);
    checkFields(content, position);
    checkObject(content, position);
    const held = toJson(
      await withText(content),
      "item",
      position,
      "vector" in content || "vectors" in content ? "bad_vector" : "bad_object",
    );
    yield { json: `${head}${held === "{}" ? "" : `,${held.slice(1, -1)}`}${tail}${version}}`, conditional };
    position++;
  }
}

/** Queries of the same options as they travel. */
export async function* askedParts(queries: Many<Asked>): AsyncGenerator<Part, void, undefined> {
  let position = 0;
  for await (const asked of checkedMany(queries, "queries")) {
    yield { json: isVector(asked, position) ? vectorJson(asked, position) : `{${await subject(asked, position)}}`, conditional: false };
    position++;
  }
}

/** Queries with options of their own as they travel. */
export async function* queryParts(queries: Many<Query>): AsyncGenerator<Part, void, undefined> {
  let position = 0;
  for await (const query of checkedMany(queries, "queries")) {
    refuseAmbiguous(checkedObject(query, "a query", position), position);
    yield { json: toJson(await withIds(query, position), "query", position, "bad_vector"), conditional: false };
    position++;
  }
}

const SUBJECTS = ["vector", "vectors", "string", "series", "points", "image", "id", "positive"] as const;

/** One query asks for one thing, and says nothing of the request as a whole. */
function refuseAmbiguous(query: object, position: number): void {
  const given = query as Readonly<Record<string, unknown>>;
  if (SUBJECTS.filter((name) => given[name] !== undefined && given[name] !== null).length !== 1)
    throw new InvalidArgument("a query has just one of a vector or object, id and positive", position, "bad_parameter");
  if (given.after || given.token || given.allow_partial)
    throw new InvalidArgument("after and allow_partial are of a request, not of one of many queries", position, "bad_parameter");
  checkVector(given.vector, position);
  checkFields(query, position);
  checkObject(query, position);
}

/** Do something for every chunk; an error's positions, and its `acknowledged` if that is told, count from the start of the whole. */
export async function* each<T>(
  chunks: AsyncIterable<Chunk>,
  told: { total: number | null; onProgress: Chunking["onProgress"]; acknowledges: boolean },
  act: (chunk: Chunk, number: number) => Promise<T>,
): AsyncGenerator<{ result: T; chunk: Chunk; done: number }, void, undefined> {
  let done = 0;
  let number = 0;
  try {
    for await (const chunk of chunks) {
      const result = await act(chunk, number++);
      yield { result, chunk, done };
      done += chunk.size;
      told.onProgress?.(done, told.total);
    }
  } catch (error) {
    if (error instanceof ApiError && done > 0) error.shift(done);
    if (error instanceof KinbinClientError && told.acknowledges) error.after(done);
    throw error;
  }
}

/** How many there are, if that is known before they are read. */
export function totalOf(many: Many<unknown>): number | null {
  return Array.isArray(many) ? many.length : null;
}

/** UnexpectedResponse unless there are as many answers as queries. */
export function checkedAnswers<T>(answers: T[], queries: number): T[] {
  if (Array.isArray(answers) && answers.length === queries) return answers;
  throw new UnexpectedResponse(`${queries} queries were sent and ${Array.isArray(answers) ? answers.length : "no"} answers came`, 200);
}

function refuseDuplicates(items: readonly NewItem<object>[]): void {
  const seen = new Map<string, number>();
  for (const [position, item] of items.entries()) {
    // What is no id is told when its turn comes.
    const id = String(item?.id);
    const first = item?.id === undefined ? undefined : seen.get(id);
    if (first !== undefined) {
      const text = `the id ${JSON.stringify(id.slice(0, 40))} is at position ${first} already; send each id once`;
      throw new InvalidArgument(text, position, "duplicate_id");
    }
    seen.set(id, position);
  }
}
