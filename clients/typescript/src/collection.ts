/** A collection: what it holds, and how it is read and changed. */
import { ApiError, InvalidArgument, UnexpectedResponse } from "./errors.js";
import { payloadJson, toJson } from "./json.js";
import { checkedFilter } from "./options.js";
import { asRead, checkedObject, idList, idOf, jsonRequest, listOf, post, split } from "./requests.js";
import { partly } from "./searching.js";
import { LONG } from "./snapshots.js";
import { Tuning } from "./tuning.js";
import type {
  CallOptions,
  CollectionInfo,
  Counted,
  Facets,
  Filter,
  GetAnswer,
  Id,
  Item,
  Page,
  PartialOptions,
  Payload,
  ReadOptions,
  Schemas,
  Written,
} from "./types.js";

/** What comes with stored items. */
export type Include = readonly ("payload" | "vector" | "version" | `payload.${string}`)[];

/** Which items, in which order. */
export interface ScrollOptions extends PartialOptions {
  /** Items a page. Default 100. */
  limit?: number;
  filter?: Filter | null;
  /** Default ["payload"]. */
  include?: Include;
  /** A field of payloads, in the place of the id: its least value in each item first, or (descending) its greatest. */
  order_by?: string | null;
  descending?: boolean;
}

/** A write of one payload. */
export interface PayloadWrite<P> {
  readonly id: Id;
  readonly payload: P | null;
  /** The version that the stored item must have. */
  readonly if_version?: number | null;
}

/** A payload whose fields may be left out, or null, which removes them. */
export type Patch<P> = { [Field in keyof P]?: P[Field] | null };

/** What is deleted: items by id, on condition of versions if these are given, one for each id, or all that a filter matches. */
export type Deleted =
  | {
      readonly ids: Iterable<Id>;
      /** What each item has to be, or nothing is deleted; 0: it must not be there; null: any. */
      readonly if_versions?: readonly (number | null)[] | null;
    }
  | { readonly filter: Filter };

const IDS_A_GET = 1_000;

/** A handle of one collection, made by `Client.collection` without asking whether it is there. `P` is the type of its payloads. */
export class Collection<P extends object = Payload> extends Tuning<P> {
  /** The configuration of the collection, and its statistics; NotFound if it is not there. */
  async info(options: ReadOptions = {}): Promise<CollectionInfo> {
    return this.ask({ method: "GET", path: this.path }, asRead(options), "name", "count");
  }

  /** Sizes, runs and predictions of its index. */
  async stats(options: ReadOptions = {}): Promise<Schemas["CollectionAnswer"]["stats"]> {
    return (await this.info(options)).stats;
  }

  /**
   * Stored items by id.
   *
   * Usage: `const { items, missing } = await photos.get(["a", "b"], { include: ["payload"] })`
   */
  async get(ids: Iterable<Id>, options: { include?: Include } & PartialOptions & ReadOptions = {}): Promise<GetAnswer<P>> {
    const { call, fields } = split(asRead(options));
    const listed = idList(ids);
    const missing = new Set<number>();
    const found: GetAnswer<P> = { items: [], missing: [] };
    for (let start = 0; start < Math.max(1, listed.length); start += IDS_A_GET) {
      const request = post(`${this.path}/get`, { ids: listed.slice(start, start + IDS_A_GET), ...fields });
      const part = await this.ask<GetAnswer<P>>(request, call, "items", "missing").catch((error: unknown) => {
        throw error instanceof ApiError ? error.shift(start) : error;
      });
      found.items.push(...part.items);
      found.missing.push(...part.missing);
      for (const shard of part.shards_missing ?? []) missing.add(shard);
    }
    return { ...found, ...partly(missing) };
  }

  /**
   * Delete items, by exactly one of ids and filter. After a repeated request `deleted` may be too low.
   *
   * With `if_versions`, one for each id, all of them are deleted or none: Conflict with code "version_conflict" if an item has another.
   *
   * Usage: `await photos.delete({ ids: ["a"] })`, `await photos.delete({ filter: { year: { $lt: 2000 } } })`,
   *     `await photos.delete({ ids, if_versions: await photos.versions(ids) })`
   */
  async delete(which: Deleted, options: CallOptions = {}): Promise<Written<Schemas["DeleteAnswer"]>> {
    const body = deleteBody(which);
    // On condition of a version the second would meet its own work.
    return this.ask(post(`${this.path}/delete`, body, "if_versions" in body ? "if-not-done" : "always"), options, "deleted");
  }

  /** How many items there are (that fit a filter). */
  async count(filter: Filter | null = null, options: ReadOptions = {}): Promise<number> {
    return (await this.ask<Counted>(post(`${this.path}/count`, { filter }), asRead(options), "count")).count;
  }

  /** The same, of a cluster with what is missing of it. */
  async counted(filter: Filter | null = null, options: PartialOptions & ReadOptions = {}): Promise<Counted> {
    const { call, fields } = split(asRead(options));
    return this.ask<Counted>(post(`${this.path}/count`, { filter, ...fields }), call, "count");
  }

  /**
   * The values of a field of payloads with how many items have each, exactly, the most frequent first.
   *
   * Usage: `(await photos.facets("tag", { filter: { year: 2020 } })).values`
   */
  async facets(field: string, options: { filter?: Filter | null; limit?: number } & PartialOptions & ReadOptions = {}): Promise<Facets> {
    const { call, fields } = split(asRead(options));
    return this.ask(post(`${this.path}/facets`, { field, ...fields }), call, "values");
  }

  /**
   * Index a field of payloads, in the background: filters on it need not read payloads then, and mean the same.
   *
   * Usage: `await photos.addIndex("year", "number")`
   */
  async addIndex(field: string, kind: "number" | "keyword" | "datetime" | "geo", options: CallOptions = {}): Promise<void> {
    await this.ask(post(`${this.path}/indexes`, { add: { [checkedField(field)]: kind }, drop: [] }), options);
  }

  /** Drop the index of a field; InvalidInput if there is none. After a repeated request it may be gone already. */
  async dropIndex(field: string, options: CallOptions = {}): Promise<void> {
    await this.ask(post(`${this.path}/indexes`, { add: {}, drop: [checkedField(field)] }), options);
  }

  /**
   * One page of the items in id order, or in that of a field; its `next` is the `after` of the following page.
   *
   * Usage: `const page = await photos.scroll({ limit: 50, order_by: "year", descending: true })`
   */
  async scroll(options: ScrollOptions & { after?: string | null } & CallOptions = {}): Promise<Page<P>> {
    const { call, fields } = split(options);
    return this.ask(post(`${this.path}/scroll`, fields), call, "items");
  }

  /**
   * All pages, from `after` on, each fetched when it is asked for.
   *
   * Usage: `for await (const page of photos.pages({ limit: 1000 })) store(page.items)`
   */
  async *pages(options: ScrollOptions & { after?: string | null } & CallOptions = {}): AsyncGenerator<Page<P>, void, undefined> {
    for (let after = checkedObject(options, "the options").after ?? null, first = true; first || after !== null; first = false) {
      const page: Page<P> = await this.scroll({ ...options, after });
      // It would have us read that page for ever.
      if (page.next !== null && page.next === after)
        throw new UnexpectedResponse("the service returned the cursor of this page as that of the next", 200);
      after = page.next ?? null;
      yield page;
    }
  }

  /**
   * All items in id order, or in that of a field, fetched in pages of `limit`.
   *
   * Usage: `for await (const item of photos.items({ filter: { year: 2020 } })) console.log(item.id)`
   */
  async *items(options: ScrollOptions & CallOptions = {}): AsyncGenerator<Item<P>, void, undefined> {
    for await (const page of this.pages(options)) yield* page.items;
  }

  /**
   * All items as lines of NDJSON, in the form that `addLines` and `kinbin import` take; each ends with a newline.
   *
   * Usage: `await writeFile("photos.ndjson", photos.exportLines())`
   */
  async *exportLines(options: { filter?: Filter | null; limit?: number } & CallOptions = {}): AsyncGenerator<string, void, undefined> {
    for await (const item of this.items({ ...options, include: ["vector", "payload"] })) {
      const held = Object.fromEntries(Object.entries(item).filter(([, value]) => value !== null));
      yield `${toJson(held, "item")}\n`;
    }
  }

  /**
   * Replace the payloads of stored items, all or none, without their vectors; Conflict if an id is not there.
   *
   * Usage: `await photos.setPayload([{ id: "a", payload: { year: 2021 } }])`
   */
  async setPayload(writes: readonly PayloadWrite<P>[], options: CallOptions = {}): Promise<Written<Schemas["PayloadAnswer"]>> {
    return this.#payloads("replace", writes, options);
  }

  /**
   * Merge a patch into the payload of each item (RFC 7396): null removes a field, objects are merged. As `setPayload`.
   *
   * Usage: `await photos.patchPayload([{ id: "a", payload: { year: null } }])`
   */
  async patchPayload(patches: readonly PayloadWrite<Patch<P>>[], options: CallOptions = {}): Promise<Written<Schemas["PayloadAnswer"]>> {
    return this.#payloads("merge", patches, options);
  }

  #payloads(
    mode: "replace" | "merge",
    writes: readonly PayloadWrite<unknown>[],
    options: CallOptions,
  ): Promise<Written<Schemas["PayloadAnswer"]>> {
    const items = listOf(writes, "writes").map((write, position) => ({
      ...checkedObject(write, "a write", position),
      id: idOf(write.id, position),
    }));
    for (const [position, { payload }] of items.entries()) if (payload !== undefined && payload !== null) payloadJson(payload, position);
    const conditional = items.some(({ if_version }) => if_version !== undefined && if_version !== null);
    // On condition of a version the second would meet its own work.
    return this.ask(post(`${this.path}/payload`, { mode, items }, conditional ? "if-not-done" : "always"), options, "updated");
  }

  /** The version of each item, 0 where there is none: for `if_version`. */
  async versions(ids: Iterable<Id>, options: ReadOptions = {}): Promise<number[]> {
    const listed = idList(ids);
    const { items } = await this.get(listed, { ...options, include: ["version"] });
    const known = new Map(items.map((item) => [item.id, item.version ?? 0]));
    return listed.map((id) => known.get(id) ?? 0);
  }

  /** What the collection may hold at most. */
  async limits(options: CallOptions = {}): Promise<Schemas["HoldsAnswer"]> {
    return this.ask({ method: "GET", path: `${this.path}/limits` }, options, "count");
  }

  /**
   * Let it hold at most so many items and bytes; null: as many as there is room for. Adds that would pass that are refused.
   *
   * Usage: `await photos.setLimits({ items: 1_000_000 })`
   */
  async setLimits(limits: Schemas["HoldsRequest"], options: CallOptions = {}): Promise<Written<Schemas["HoldsAnswer"]>> {
    const { items, bytes, ...unknown } = checkedObject(limits, "the limits");
    const body = toJson({ items: items ?? null, bytes: bytes ?? null, ...unknown }, "limits");
    return this.ask(jsonRequest("PUT", `${this.path}/limits`, body), options, "count");
  }

  /**
   * Merge everything into one run now; with `shrink` give the disk back that is not used. Returns when it is done.
   *
   * Usage: `(await photos.compact({ shrink: true })).freed_bytes`
   */
  async compact(options: Schemas["CompactRequest"] & CallOptions = {}): Promise<Schemas["CompactAnswer"]> {
    const { call, fields } = split(options);
    return this.ask({ ...post(`${this.path}/compact`, fields), timeout: LONG }, call, "freed_bytes");
  }
}

/** The body of a delete; callers without types may name more than it takes, and would delete more than they meant. */
function deleteBody(which: Deleted): { ids: string[]; if_versions?: (number | null)[] } | { filter: Filter } {
  const given = Object.entries(checkedObject(which, "what is deleted")).filter(([, value]) => value !== undefined && value !== null);
  const unknown = given.find(([name]) => name !== "ids" && name !== "filter" && name !== "if_versions");
  if (unknown !== undefined)
    throw new InvalidArgument(`delete takes ids with if_versions, or filter, and no ${JSON.stringify(unknown[0])}`);
  const { ids, filter, if_versions } = Object.fromEntries(given) as {
    ids?: Iterable<Id>;
    filter?: Filter;
    if_versions?: (number | null)[];
  };
  if ((ids === undefined) === (filter === undefined)) throw new InvalidArgument("delete takes exactly one of ids and filter");
  if (ids === undefined) {
    if (if_versions !== undefined) throw new InvalidArgument("delete takes if_versions with ids only");
    return { filter: checkedFilter(filter as Filter) };
  }
  const listed = idList(ids);
  if (if_versions === undefined) return { ids: listed };
  const versions = listOf(if_versions, "if_versions");
  if (versions.length === listed.length) return { ids: listed, if_versions: versions };
  throw new InvalidArgument(
    `${listed.length} ids came with ${versions.length} if_versions; send one for each, null for any`,
    null,
    "bad_parameter",
  );
}

function checkedField(field: string): string {
  if (typeof field === "string") return field;
  throw new InvalidArgument("a field of payloads is a string", null, "bad_parameter");
}
