/** The names of what travels: the schemas of the service's OpenAPI file, with payloads of a type of one's own. */
import type { components } from "./openapi.js";
import type { TypedNumbers } from "./json.js";
import type { Retry } from "./retry.js";

/** Every schema of the OpenAPI file, by its name there. */
export type Schemas = components["schemas"];

/**
 * The id of an item. A whole number stands for its digits: 5 and "5" are one item. A number is a safe integer, a bigint has 64 bits, with a
 * sign or without. Answers hold strings.
 */
export type Id = string | number | bigint;

/** A payload that nothing more is known of. Whole numbers in it that are no safe integers are bigint. */
export type Payload = Record<string, unknown>;

/** A sparse vector. Features beyond 2^53, as those of tokens are, come as bigint. */
export interface Sparse {
  indices: (number | bigint)[];
  values: number[];
}

/** A vector as it is sent. An array of strings is a set of tokens. */
export type Vector =
  | readonly number[]
  | readonly string[]
  | TypedNumbers
  | { readonly indices: readonly (number | bigint)[] | TypedNumbers; readonly values: readonly number[] | TypedNumbers }
  | { readonly tokens: Readonly<Record<string, number>> | readonly string[] };

/** A vector as it comes back. */
export type StoredVector = number[] | Sparse;

/** {"field": value} or {"field": {"$gte": 3}}, with $eq $ne $gt $gte $lt $lte $in $nin $exists, $and, $or and $not. */
export type Filter = Record<string, unknown>;

/** An image: the bytes of a PNG, JPEG or WebP file, or these in base64. */
export type Image = Uint8Array | ArrayBuffer | Blob | string;

/** An object, in a collection of objects, under the name of its kind. */
export type Given =
  | { readonly string: string }
  | { readonly series: readonly number[] | readonly (readonly number[])[] | TypedNumbers }
  | { readonly points: readonly (readonly number[])[] }
  | { readonly image: Image };

/** Vectors of several fields. */
export interface ByField {
  readonly vectors: Readonly<Record<string, Vector>>;
}

/** What an item to be stored holds: a vector, vectors of several fields, or an object. */
export type Content = { readonly vector: Vector } | ByField | Given;

/** An item to be stored. */
export type NewItem<P extends object = Payload> = Content & {
  readonly id: Id;
  readonly payload?: P | null;
  /** The version that the stored item must have; 0: it must not be there. */
  readonly if_version?: number | null;
};

type Read<Entry, P> = Omit<Entry, "payload" | "vector" | "vectors"> & {
  payload?: P | null;
  vector?: StoredVector | null;
  /** By field, in a collection with several. */
  vectors?: Record<string, StoredVector> | null;
};

/** One neighbour: `score` is what the kernel prints, exactly; where that is a distance it is in `distance`. */
export type Hit<P extends object = Payload> = Read<Schemas["Hit"], P>;

/** A stored item; `payload`, `vector` and `version` as far as they were asked for. */
export type Item<P extends object = Payload> = Read<Schemas["ItemOut"], P>;

/** A group of an answer. Its value is bigint where that is a whole number and no safe integer. */
export type Group = Omit<Schemas["GroupOut"], "value"> & { value: string | number | bigint | boolean };

/** The values of a field with their counts. They are bigint where they are whole numbers and no safe integers. */
export type Facets = Omit<Schemas["FacetsAnswer"], "values"> & {
  values: (Omit<Schemas["FacetValueAnswer"], "value"> & { value: string | number | bigint | boolean | null })[];
} & Partly;

/** The nearest items, best first, with what is known about how complete they are. */
export type Answer<P extends object = Payload> = Omit<Schemas["OneAnswer"], "results" | "groups"> & {
  results: Hit<P>[];
  groups?: Group[] | null;
} & Partly;

/** The same, with the time that the service took. */
export type TimedAnswer<P extends object = Payload> = Answer<P> & { took_ms: number };

/** One answer per query, in the order of the queries. `took_ms` is in sum. */
export interface BatchAnswer<P extends object = Payload> extends Partly {
  answers: Answer<P>[];
  took_ms: number;
}

/** The items that are there, and the ids that are `missing`. */
export interface GetAnswer<P extends object = Payload> extends Partly {
  items: Item<P>[];
  missing: string[];
}

/** One page of a scroll; `next` goes into the `after` of the next page, and is null on the last. */
export interface Page<P extends object = Payload> extends Partly {
  items: Item<P>[];
  next: string | null;
}

/** What an add did, in sum of its requests. `problems`: what was wrong with the first hundred of `skipped` items. */
export interface AddResult {
  indexed: number;
  updated: number;
  unchanged: number;
  count: number;
  skipped: number;
  problems: Schemas["SkippedItem"][];
  /** Of a matrix without ids: those that were made. */
  ids: string[] | null;
  /** Of a cluster: a read `after` it knows all of this. */
  token: string | null;
  took_ms: number;
}

/** What is durable of a stream of lines, in sum. */
export interface Receipt {
  /** Lines so far; for `after`, if the stream has to be resumed. */
  lines: number;
  indexed: number;
  updated: number;
  unchanged: number;
  skipped: number;
  count: number;
  /** On the last one. */
  done?: true;
  problems?: Schemas["SkippedItem"][];
}

/** What every call takes besides what travels. */
export interface CallOptions {
  /** Aborts the call, its retries and its pauses; the call throws the signal's reason. */
  signal?: AbortSignal | undefined;
  /** Milliseconds of silence after which an attempt is given up, in the place of the client's. */
  timeout?: number | undefined;
  /** In the place of the client's. */
  retry?: Retry | undefined;
  /** Of a read of a cluster: as `after` of `ReadOptions`, also where `after` is a cursor, as of `scroll`. */
  token?: string | null | undefined;
}

/** What reads of a cluster take besides. */
export interface ReadOptions extends CallOptions {
  /** The `token` of a write that the answer has to know. */
  after?: string | null | undefined;
}

/** What reads take whose answer can say that it is of a part of the shards. */
export interface PartialOptions {
  /** Where nobody answers for a shard: take what the others answer. */
  allow_partial?: boolean;
}

/** Of an answer of a cluster: what it lacks. */
export interface Partly {
  partial?: boolean;
  shards_missing?: number[];
}

/** Of an answer to a write, in a cluster: a read `after` the token knows it. */
export type Written<Answer> = Answer & { token?: string | null };

/** How a collection lies in a cluster: how many shards it has, and on how many nodes each of them lies. */
export interface Spread {
  /** Default 3; 1 to 256. Changed later by `kinbin cluster reshard` alone. */
  shards?: number;
  /** Default 2, or 1 where there is one node; at most as many as there are nodes. */
  replicas?: number | null;
}

/** The configuration of a collection, its size and index; at a gateway also how it lies in the cluster. */
export type CollectionInfo = Schemas["CollectionAnswer"] & { cluster?: { shards: number; replicas: number } };

/** How many items there are, of a cluster perhaps only in some shards. */
export type Counted = Schemas["CountAnswer"] & Partly;

/** How a call of many items is cut into requests, each of them atomic, and how far it is. */
export interface Chunking {
  /** Items, or queries, of one request: at most 1,000 if nothing is said. */
  maxItems?: number | undefined;
  /** Bytes of one request: at most 8 MiB if nothing is said. An item that alone has more travels alone. */
  maxBytes?: number | undefined;
  /** Called after every request; `total` is null where nobody knows how many there are. */
  onProgress?: ((done: number, total: number | null) => void) | undefined;
}

type Subject =
  "vector" | "vectors" | "string" | "series" | "points" | "image" | "id" | "positive" | "negative" | "queries" | "filter" | "exclude";

/** The options of a query, under the names of the REST interface. */
export type QueryOptions = Omit<Schemas["QueryRequest"], Subject> & {
  filter?: Filter | null;
  /** Ids of items that are left out. */
  exclude?: readonly Id[];
} & PartialOptions;

/** With several fields: how their scores become one. */
export type FieldsOptions = Pick<Schemas["FieldsQueryRequest"], "weights" | "combine" | "fields">;

/** What is asked for: a vector, an object, or vectors of several fields. */
export type Asked = Vector | Given | (ByField & FieldsOptions);

/** An example of a query: the id of a stored item, a vector, or an object. */
export type Example = Id | Vector | Given;

/** One of many queries, with options of its own. */
export type Query = QueryOptions &
  ({ vector: Vector } | Given | { id: Id } | { positive: readonly Example[]; negative?: readonly Example[] });

/** The options of an add. */
export interface AddOptions extends Chunking, CallOptions {
  /** insert takes new ids only, update stored ids only. Default upsert. */
  mode?: Schemas["AddRequest"]["mode"];
  /** skip: write the good items, and list the bad ones in the answer. */
  on_error?: Schemas["AddRequest"]["on_error"];
  /** The same add under the same key is done once, for a day. One is made where an add could not be repeated without. */
  idempotencyKey?: string | undefined;
}
