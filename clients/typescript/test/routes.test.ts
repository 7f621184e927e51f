/** Every operation of the OpenAPI file is called once, by a method of the client, against a live service. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import type { Client, Collection, operations, Snapshot } from "kinbin-client";
import { live } from "./support.js";

interface Rated {
  year: number;
  tag?: string;
}

/** What the calls share, in their order. */
interface Scene {
  client: Client<Rated>;
  photos: Collection<Rated>;
  snapshot: Snapshot;
}

/**
 * A call for each operation, in an order that works. A new operation of the OpenAPI file does not compile before it has a line here:
 * write the method of the client that it takes (src/client.ts, src/collection.ts), then call it.
 */
const CALLS: { readonly [Operation in keyof operations]: (scene: Scene) => Promise<unknown> } = {
  livez: ({ client }) => client.live(),
  readyz: ({ client }) => client.waitReady({ timeout: 10_000 }),
  healthz: ({ client }) => client.health(),
  metrics: ({ client }) => client.metrics(),
  list_limits: ({ client }) => client.limits(),
  add_items_default: ({ client }) => client.add([{ id: "a", vector: [0.1, 0, 2.5], payload: { year: 2020 } }]),
  query_default: ({ client }) => client.query([0.1, 0, 2.5], { k: 1, include: ["payload"] }),
  create_collection: ({ client }) => client.createCollection("ts-routes", { kernel: "ngmm", dim: 3 }),
  list_collections: ({ client }) => client.collections(),
  get_collection: ({ photos }) => photos.info(),
  add_items: ({ photos }) =>
    photos.add([
      { id: "a", vector: [0.1, 0, 2.5], payload: { year: 2020, tag: "red" } },
      { id: "b", vector: Float32Array.of(1, 2, 3), payload: { year: 2021 } },
    ]),
  query: ({ photos }) => photos.query([0.1, 0, 2], { k: 2, filter: { year: { $gte: 2020 } } }),
  get_items: ({ photos }) => photos.get(["a", "z"], { include: ["payload", "vector", "version"] }),
  scroll_items: ({ photos }) => photos.scroll({ limit: 1 }),
  count_items: ({ photos }) => photos.count({ year: 2020 }),
  change_indexes: ({ photos }) => photos.addIndex("year", "number"),
  count_facets: ({ photos }) => photos.facets("tag", { limit: 5 }),
  explain: ({ photos }) => photos.explain([0.1, 0, 2], "a"),
  map_items: ({ photos }) => photos.map({ fields: ["tag"] }),
  find_duplicates: ({ photos }) => photos.duplicates({ min_score: 0.9 }),
  tune: ({ photos }) => photos.tune({ sample: 2 }),
  sampled_recall: ({ photos }) => photos.recall(2, { k: 1 }),
  given_recall: ({ photos }) => photos.recall([[0.1, 0, 2]], { k: 1, modes: ["auto", "exact"] }),
  rebuild: ({ photos }) => photos.rebuild(),
  compact_collection: ({ photos }) => photos.compact({ shrink: true }),
  write_payloads: ({ photos }) => photos.patchPayload([{ id: "a", payload: { tag: null } }]),
  put_limits: ({ photos }) => photos.setLimits({ items: 100 }),
  get_limits: ({ photos }) => photos.limits(),
  put_alias: ({ client }) => client.alias("ts-routes-now", "ts-routes"),
  list_aliases: ({ client }) => client.aliases(),
  drop_alias: ({ client }) => client.dropAlias("ts-routes-now"),
  create_snapshot: async (scene) => (scene.snapshot = await scene.client.snapshots.create("ts-routes", { keep: 1 })),
  list_snapshots: ({ client }) => client.snapshots.list("ts-routes"),
  verify_snapshot: ({ client, snapshot }) => client.snapshots.verify("ts-routes", snapshot.id),
  get_snapshot: async ({ client, snapshot }) => {
    let bytes = 0;
    for await (const part of client.snapshots.download("ts-routes", snapshot.id)) bytes += part.length;
    assert.equal(bytes, snapshot.bytes);
  },
  restore: ({ client, snapshot }) => client.restore<Rated>(snapshot, "ts-routes-2"),
  delete_snapshot: ({ client, snapshot }) => client.snapshots.delete("ts-routes", snapshot.id),
  delete_items: ({ photos }) => photos.delete({ ids: ["b"] }),
  drop_collection: async ({ client }) => {
    await client.dropCollection("ts-routes-2");
    await client.dropCollection("ts-routes");
  },
};

interface Described {
  paths: Record<string, Record<string, { operationId: string }>>;
}

const described = JSON.parse(readFileSync(new URL("../../../service/openapi.json", import.meta.url), "utf8")) as Described;
const ROUTES = Object.entries(described.paths).flatMap(([path, methods]) =>
  Object.entries(methods).map(([method, { operationId }]) => ({ operationId, method: method.toUpperCase(), path })),
);

test("every operation of the OpenAPI file has a call, and no call is of an operation that is gone", () => {
  assert.deepEqual(Object.keys(CALLS).sort(), ROUTES.map(({ operationId }) => operationId).sort());
});

test("every operation is answered by the live service, at its own method and path", async (context) => {
  const made: { method: string; path: string; status: number }[] = [];
  const recording: typeof fetch = async (input, init) => {
    const response = await fetch(input, init);
    made.push({ method: init?.method ?? "GET", path: new URL(String(input)).pathname, status: response.status });
    return response;
  };
  const client = live<Rated>({ fetch: recording });
  const scene = { client, photos: client.collection<Rated>("ts-routes"), snapshot: null as unknown as Snapshot };
  for (const [operation, call] of Object.entries(CALLS)) {
    const route = ROUTES.find(({ operationId }) => operationId === operation);
    assert.ok(route);
    await context.test(`${route.method} ${route.path}`, async () => {
      made.length = 0;
      await call(scene);
      const pattern = new RegExp(`^${route.path.replace(/\{\w+\}/g, "[^/]+")}$`);
      assert.ok(made.length > 0 && made.every(({ method, path }) => method === route.method && pattern.test(path)), JSON.stringify(made));
      assert.ok(made.every(({ status }) => status >= 200 && status < 300));
    });
  }
});
