/** The client: `Client`, whose own adds and queries work on the collection "default". */
import { Collection } from "./collection.js";
import { Conflict, InvalidArgument, ServerError, Timeout, TransportError, Unavailable } from "./errors.js";
import { toJson } from "./json.js";
import { checkedSpelling } from "./options.js";
import { errorOf, parsed } from "./replies.js";
import { aliasPath, checkedName, checkedObject, collectionPath, jsonRequest, post } from "./requests.js";
import { Searchable } from "./searching.js";
import { sleep } from "./send.js";
import { LONG, Snapshots, type Snapshot } from "./snapshots.js";
import { DEFAULT_ADDRESS, Sender, type ClientOptions, type Request } from "./transport.js";
import type { CallOptions, Payload, Schemas, Spread } from "./types.js";

/** What the service, or a proxy before it, answers while it starts; a service that failed to start answers 500. */
const STARTING_STATUSES = new Set([502, 503, 504]);
/** The longest that one question for readiness may take, so that a hanging one is asked again. */
const READY = 5_000;

/** The configuration of a new collection. What is left out is chosen by Kinbin. */
export type Configuration = Schemas["CollectionRequest"] & {
  /** Take one that is there, if it is alike. */
  existOk?: boolean;
  /** At a gateway: how it lies on the nodes of the cluster. One server refuses it. */
  cluster?: Spread | null;
};

/** A file of a snapshot to be uploaded. */
export type SnapshotFile = Blob | Uint8Array | ReadableStream<Uint8Array>;

/**
 * A Kinbin service, over HTTP. `add` and the queries on the client itself work on the collection "default".
 *
 * Usage:
 *     const client = new Client("http://127.0.0.1:8080", { apiKey: key });
 *     await client.waitReady();
 *     await client.add([{ id: "a", vector: [0.1, 0, 2.5] }]);
 *     console.log((await client.query([0.1, 0, 2])).results);
 */
export class Client<P extends object = Payload> extends Searchable<P> {
  /** The snapshots that the service keeps. */
  readonly snapshots: Snapshots;

  constructor(url: string = DEFAULT_ADDRESS, options: ClientOptions = {}) {
    super(new Sender(url, checkedObject(options, "the options")), { index: "/index", query: "/query" });
    this.snapshots = new Snapshots(this.sender);
  }

  /** End what is under way; further calls, also those of its collections, throw ClientClosed. Connections are fetch's own. */
  close(): void {
    this.sender.close();
  }

  /**
   * Create a collection; Conflict if there is one of this name, unless `existOk` and it is alike.
   *
   * Usage: `const photos = await client.createCollection<{ year: number }>("photos", { kernel: "ngmm", dim: 512 })`
   */
  async createCollection<Q extends object = Payload>(
    name: string,
    configuration: Configuration = {},
    options: CallOptions = {},
  ): Promise<Collection<Q>> {
    const { existOk = false, ...config } = checkedSpelling(checkedObject(configuration, "the configuration"));
    if (typeof existOk !== "boolean") throw new InvalidArgument("existOk is true or false", null, "bad_parameter");
    // The second answer to a request that was done would take the collection that the first has made for one that was there.
    const request = jsonRequest("PUT", collectionPath(name), toJson(config, "configuration"), existOk ? "always" : "if-not-done");
    const found = (status: number): boolean => status === 200 && !existOk;
    await this.do(
      request,
      (reply) => {
        const info = parsed<Schemas["CollectionAnswer"]>(reply, "name");
        const detail = "the collection exists; choose another name or drop it first";
        if (found(reply.status)) throw new Conflict({ status: 409, code: "collection_exists", detail });
        return info;
      },
      options,
    );
    return this.collection<Q>(name);
  }

  /** The handle of a collection; sends nothing. `Q` is the type of its payloads. */
  collection<Q extends object = Payload>(name: string): Collection<Q> {
    return new Collection<Q>(this.sender, name);
  }

  /** The names of all collections, sorted. */
  async collections(options: CallOptions = {}): Promise<string[]> {
    return (await this.ask<Schemas["CollectionsAnswer"]>({ method: "GET", path: "/v1/collections" }, options, "collections")).collections;
  }

  /** Delete a collection with all its items; NotFound if it is not there. `damaged`: also one whose files are damaged. */
  async dropCollection(name: string, options: CallOptions & { damaged?: boolean } = {}): Promise<void> {
    const { damaged = false, ...call } = checkedObject(options, "the options");
    if (typeof damaged !== "boolean") throw new InvalidArgument("damaged is true or false", null, "bad_parameter");
    // Never repeated when it may have been done: the second would miss it, or hit a new one.
    const path = collectionPath(name) + (damaged ? "?damaged=true" : "");
    await this.ask({ method: "DELETE", path, repeat: "if-not-done" }, call);
  }

  /** Let another name lead to a collection, at once, wherever it led before. It stands for the collection in every call. */
  async alias(name: string, collection: string, options: CallOptions = {}): Promise<void> {
    await this.ask(jsonRequest("PUT", aliasPath(name), toJson({ collection }, "alias")), options);
  }

  /** Collections by alias. */
  async aliases(options: CallOptions = {}): Promise<Record<string, string>> {
    return (await this.ask<Schemas["AliasesAnswer"]>({ method: "GET", path: "/v1/aliases" }, options, "aliases")).aliases;
  }

  /** Remove an alias; its collection stays. NotFound if there is none. */
  async dropAlias(name: string, options: CallOptions = {}): Promise<void> {
    await this.ask({ method: "DELETE", path: aliasPath(name), repeat: "if-not-done" }, options);
  }

  /**
   * Make a new collection of a snapshot: one of `snapshots`, or a file, which is uploaded. Conflict if there is one of this name.
   *
   * All of it is proved before anything is made.
   *
   * Usage: `await client.restore(await openAsBlob("photos.kinbin"), "photos-2")`
   */
  async restore<Q extends object = Payload>(
    source: Snapshot | SnapshotFile,
    name: string,
    options: CallOptions = {},
  ): Promise<Collection<Q>> {
    checkedObject(source, "what is restored");
    const request: Request = isFile(source)
      ? {
          method: "POST",
          path: `/v1/restore?name=${checkedName(name)}`,
          body: source,
          headers: { "content-type": "application/x-kinbin-snapshot" },
          repeat: source instanceof ReadableStream ? "never" : "if-not-done",
        }
      : post("/v1/restore", { collection: source.collection, snapshot: source.id, name }, "if-not-done");
    await this.ask({ ...request, timeout: LONG }, options, "name");
    return this.collection<Q>(name);
  }

  /** The limits of the service by name. */
  async limits(options: CallOptions = {}): Promise<Record<string, Schemas["LimitAnswer"]>> {
    const { limits } = await this.ask<Schemas["LimitsAnswer"]>({ method: "GET", path: "/v1/limits" }, options, "limits");
    return Object.fromEntries(limits.map((limit) => [limit.name, limit]));
  }

  /** The state of the worker that answers, if any does. */
  async health(options: CallOptions = {}): Promise<Schemas["StatusAnswer"]> {
    return this.ask({ method: "GET", path: "/healthz" }, options, "status");
  }

  /** Whether the process answers at all; its state, which may be "starting". */
  async live(options: CallOptions = {}): Promise<Schemas["StatusAnswer"]> {
    return this.ask({ method: "GET", path: "/livez" }, options, "status");
  }

  /** The metrics of the service, as Prometheus reads them. */
  async metrics(options: CallOptions = {}): Promise<string> {
    return this.do(
      { method: "GET", path: "/metrics", headers: { accept: "text/plain" } },
      (reply) => {
        const error = errorOf(reply);
        if (error !== null) throw error;
        return new TextDecoder().decode(reply.body);
      },
      options,
    );
  }

  /** Whether the service takes requests now; not asked again when it says that it does not. */
  async ready(options: CallOptions = {}): Promise<boolean> {
    try {
      await this.#askReady({ ...options, retry: { attempts: 1 } });
      return true;
    } catch (error) {
      if (error instanceof Unavailable) return false;
      throw error;
    }
  }

  /**
   * Wait until the service takes requests; Timeout, with the last failure as its cause, after `timeout` milliseconds.
   *
   * Usage: `await client.waitReady({ timeout: 30_000 })`
   */
  async waitReady(options: { timeout?: number; interval?: number; signal?: AbortSignal } = {}): Promise<void> {
    const { timeout = 60_000, interval = 250, signal } = checkedObject(options, "the options");
    if (!(timeout >= 0 && interval > 0)) {
      throw new InvalidArgument("waitReady takes a timeout of at least 0 and an interval above 0 milliseconds");
    }
    const deadline = Date.now() + timeout;
    for (;;) {
      try {
        const patience = Math.min(READY, Math.max(deadline - Date.now(), interval));
        return await this.#askReady({ timeout: patience, signal, retry: { attempts: 1 } });
      } catch (error) {
        const passing = error instanceof TransportError || (error instanceof ServerError && STARTING_STATUSES.has(error.status));
        if (!passing) throw error;
        const left = deadline - Date.now();
        if (left <= 0) throw new Timeout(`the service was not ready after ${timeout} ms: ${error.message}`, false, { cause: error });
        await sleep(Math.min(interval, left), signal);
      }
    }
  }

  async #askReady(call: CallOptions): Promise<void> {
    await this.ask({ method: "GET", path: "/readyz" }, call);
  }
}

function isFile(source: Snapshot | SnapshotFile): source is SnapshotFile {
  return source instanceof Blob || source instanceof Uint8Array || source instanceof ReadableStream;
}
