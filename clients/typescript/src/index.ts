/** TypeScript client of the Kinbin near-neighbour service, for Node and browsers. */
export { Client, type Configuration, type SnapshotFile } from "./client.js";
export { Collection, type Deleted, type Include, type Patch, type PayloadWrite, type ScrollOptions } from "./collection.js";
export type { LinesOptions, NewImage } from "./adding.js";
export type { Many } from "./chunks.js";
export * from "./errors.js";
export type {
  Cluster,
  DuplicateStream,
  DuplicatesOptions,
  DuplicatesSummary,
  ExplainOptions,
  Explanation,
  Factor,
  Form,
  Found,
  ItemMap,
  MapOptions,
  Pair,
  Term,
} from "./insights.js";
export type { Matrix, MatrixQueryOptions } from "./matrices.js";
export type { operations, paths } from "./openapi.js";
export type { Repeat, Retry } from "./retry.js";
export { type Snapshot, Snapshots } from "./snapshots.js";
export { type ClientOptions, DEFAULT_ADDRESS } from "./transport.js";
export type * from "./types.js";
export type { RecallOptions } from "./tuning.js";
export { VERSION } from "./version.js";
