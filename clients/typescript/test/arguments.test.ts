/** What is given to a call: ids of every kind, what is no argument at all, and names that nobody knows. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { Client, ConnectionLost, InvalidArgument, type Id } from "kinbin-client";
import { ADDED, all, FOUND, hangUp, json, rejected, scripted, type Behaviour } from "./support.js";

const EVERYTHING: Behaviour = json({
  ...ADDED,
  ...FOUND,
  ...{ items: [], missing: [], deleted: 1, updated: 1, score: 1, terms: [], answers: [{ results: [] }], atomic: true },
});

test("a delete on condition of versions sends them, and is not repeated when it may have been done", async () => {
  const server = await scripted(EVERYTHING);
  const rows = server.client().collection("c");
  await rows.delete({ ids: ["a", "b"], if_versions: [3, null] });
  await rows.delete({ ids: ["a"], if_versions: null });
  assert.deepEqual(
    server.requests.map(({ body }) => JSON.parse(body) as unknown),
    [{ ids: ["a", "b"], if_versions: [3, null] }, { ids: ["a"] }],
  );
  const broken = await scripted(hangUp);
  await rejected(
    broken
      .client()
      .collection("c")
      .delete({ ids: ["a"], if_versions: [3] }),
    ConnectionLost,
  );
  assert.equal(broken.requests.length, 1);
});

test("a delete that names anything else is refused before it is sent", async () => {
  const server = await scripted(EVERYTHING);
  const rows = server.client().collection("c");
  for (const which of [
    undefined,
    null,
    "a",
    ["a"],
    {},
    { ids: null },
    { ids: "a" },
    { ids: ["a"], filter: {} },
    { ids: ["a"], if_version: 3 },
    { ids: ["a"], ifVersions: [3] },
    { ids: ["a"], if_versions: [3, 4] },
    { ids: ["a"], if_versions: [undefined] },
    { ids: ["a"], if_versions: 3 },
    { filter: {}, if_versions: [] },
    { filter: {}, limit: 3 },
    { filter: null },
    { filter: 3 },
  ]) {
    await rejected(rows.delete(which as never), InvalidArgument);
  }
  await rejected(rows.delete({ ids: ["a"] }, { if_versions: [3] } as never), InvalidArgument);
  await rejected(rows.setPayload([{ id: "a", payload: null }], { if_version: 3 } as never), InvalidArgument);
  assert.equal(server.requests.length, 0);
});

/** A body, looked into as deep as a call needs. */
interface Any {
  [name: string]: Any;
}

const IDS: [Id, string][] = [
  ["7", "7"],
  [7, "7"],
  [-0, "0"],
  [-(2 ** 53 - 1), "-9007199254740991"],
  [2n ** 64n - 1n, "18446744073709551615"],
  [-(2n ** 63n), "-9223372036854775808"],
];

test("ids that are whole numbers travel as their digits, wherever an id is given", async () => {
  for (const [id, text] of IDS) {
    const calls: [(client: Client) => Promise<unknown>, (body: Any) => unknown][] = [
      [(client) => client.add([{ id, vector: [1] }]), ({ items }) => items?.[0]?.["id"]],
      [(client) => client.queryId(id), (body) => body["id"]],
      [(client) => client.query([1], { exclude: [id] }), ({ exclude }) => exclude?.[0]],
      [(client) => client.queryId("a", { exclude: [id] }), ({ exclude }) => exclude?.[0]],
      [(client) => client.queryBatch([[1]], { exclude: [id] }), ({ exclude }) => exclude?.[0]],
      [(client) => all(client.queryStream([[1]], { exclude: [id] })), ({ exclude }) => exclude?.[0]],
      [(client) => client.queryEach([{ vector: [1], exclude: [id] }]), ({ queries }) => queries?.[0]?.["exclude"]?.[0]],
      [(client) => client.queryEach([{ id }]), ({ queries }) => queries?.[0]?.["id"]],
      [(client) => client.queryEach([{ positive: [id] }]), ({ queries }) => queries?.[0]?.["positive"]?.[0]],
      [(client) => client.queryExamples([[1], id]), ({ positive }) => positive?.[1]],
      [(client) => client.queryExamples([[1]], [id]), ({ negative }) => negative?.[0]],
      [(client) => client.collection("c").get([id]), ({ ids }) => ids?.[0]],
      [(client) => client.collection("c").versions(new Set([id])), ({ ids }) => ids?.[0]],
      [(client) => client.collection("c").delete({ ids: [id] }), ({ ids }) => ids?.[0]],
      [(client) => client.collection("c").explain([1], id), (body) => body["id"]],
      [(client) => client.collection("c").explain({ query_id: id }, "a"), ({ query_id }) => query_id],
      [(client) => client.collection("c").setPayload([{ id, payload: null }]), ({ items }) => items?.[0]?.["id"]],
      [(client) => client.collection("c").patchPayload([{ id, payload: {} }]), ({ items }) => items?.[0]?.["id"]],
    ];
    for (const [call, sent] of calls) {
      const server = await scripted(EVERYTHING);
      await call(server.client());
      assert.equal(sent(JSON.parse(server.requests[0]?.body ?? "{}") as Any), text, call.toString());
    }
    const server = await scripted(json(ADDED));
    await server.client().addMatrix([id], { values: Float32Array.of(1), columns: 1 });
    assert.equal(server.requests[0]?.headers["x-kinbin-ids"], `["${text}"]`);
    await server.client().addImages([{ id, image: new Blob(["i"]) }]);
    assert.ok(server.requests[1]?.body.includes(`[{"id":"${text}"}]`));
  }
});

test("versions are told in the order of ids that are whole numbers, and one id in two forms is one item", async () => {
  const server = await scripted(json({ items: [{ id: "7", version: 3 }], missing: ["8"] }));
  assert.deepEqual(await server.client().collection("c").versions([8, 7n]), [0, 3]);
  const twice = [5, "5"].map((id) => ({ id, vector: [1] }));
  assert.equal((await rejected(server.client().add(twice), InvalidArgument)).code, "duplicate_id");
});

test("numbers that are no ids are refused with their place", async () => {
  const rows = (await scripted(EVERYTHING)).client().collection("c");
  for (const id of [1.5, 2 ** 53, NaN, 2n ** 64n, -(2n ** 63n) - 1n, null, undefined, true, {}]) {
    const error = await rejected(rows.get(["a", id as never]), InvalidArgument);
    assert.deepEqual([error.position, error.code], [1, "bad_id"]);
    await rejected(rows.queryId(id as never), InvalidArgument);
    await rejected(rows.explain([1], id as never), InvalidArgument);
    await rejected(rows.add([{ id: id as never, vector: [1] }]), InvalidArgument);
    await rejected(rows.setPayload([{ id: id as never, payload: null }]), InvalidArgument);
  }
});

test("an option of the client's own that is spelled as those of the service is named as it is spelled here", async () => {
  const server = await scripted(EVERYTHING);
  const rows = server.client().collection("c");
  const calls: [() => Promise<unknown>, string][] = [
    [() => server.client().createCollection("c", { exist_ok: true } as never), "unknown option exist_ok; did you mean existOk?"],
    [() => rows.add([{ id: "a", vector: [1] }], { max_items: 3 } as never), "unknown option max_items; did you mean maxItems?"],
    [() => rows.add([{ id: "a", vector: [1] }], { on_progress: () => 3 } as never), "unknown option on_progress; did you mean onProgress?"],
    [
      () => rows.add([{ id: "a", vector: [1] }], { idempotency_key: "k" } as never),
      "unknown option idempotency_key; did you mean idempotencyKey?",
    ],
    [() => all(rows.queryStream([[1]], { max_bytes: 3 } as never)), "unknown option max_bytes; did you mean maxBytes?"],
  ];
  for (const [call, told] of calls) {
    const error = await rejected(call(), InvalidArgument);
    assert.deepEqual([error.message, error.code], [told, "bad_parameter"]);
  }
  assert.equal(server.requests.length, 0);
});

test("what came in the place of something else is told with the form that is right", async () => {
  const server = await scripted(EVERYTHING);
  const rows = server.client().collection("c");
  const recall = await rejected(rows.recall({ modes: ["bands"] } as never), InvalidArgument);
  assert.match(
    recall.message,
    /a number of stored rows, an array .* or nothing; its options second, as recall\(100, \{ modes: \["bands"\] \}\)$/,
  );
  const explain = await rejected(rows.explain("a" as never, { query_id: "b" } as never), InvalidArgument);
  assert.match(explain.message, /what is asked for first, then the id of the item: .* or explain\(\{ query_id: "b" \}, "a"\)$/);
  assert.deepEqual([recall.code, explain.code, server.requests.length], ["bad_parameter", "bad_parameter", 0]);
  const forms: [() => Promise<unknown>, string][] = [
    [() => rows.duplicates(0.9 as never), "duplicates({ min_score: 0.9 })"],
    [() => all(rows.duplicatesStream(0.9 as never)), "duplicatesStream({ min_score: 0.9 })"],
    [() => rows.map(500 as never), "map({ sample: 500 })"],
    [() => rows.tune(10 as never), "tune({ k: 10 })"],
    [() => (rows.rebuild as (rows: unknown, bands: number) => Promise<unknown>).call(rows, 3, 128), "rebuild({ rows: 3, bands: 128 })"],
  ];
  for (const [call, form] of forms) {
    const error = await rejected(call(), InvalidArgument);
    assert.equal(error.message, `the options: an object is expected, as in ${form}, not number`);
  }
});

test("what is no argument at all is an InvalidArgument of every method, and nothing is sent", async () => {
  const server = await scripted(EVERYTHING);
  const client = server.client();
  const rows = client.collection("c");
  const calls: ((none: never) => Promise<unknown>)[] = [
    (none) => client.query(none),
    (none) => client.queryId(none),
    (none) => client.queryExamples(none),
    (none) => client.queryExamples([none]),
    (none) => client.queryBatch(none),
    (none) => client.queryBatch([none]),
    (none) => client.queryEach(none),
    (none) => client.queryEach([none]),
    (none) => all(client.queryStream(none)),
    (none) => client.queryMatrix(none),
    (none) => client.add(none),
    (none) => client.add([none]),
    (none) => client.addMatrix(["a"], none),
    (none) => client.addImages(none),
    (none) => client.addImages([none]),
    (none) => client.addImages([{ id: "a", image: none }]),
    (none) => all(client.addLines(none)),
    (none) => client.createCollection(none),
    (none) => client.dropCollection(none),
    (none) => client.restore(none, "c"),
    (none) => client.snapshots.create(none),
    (none) => rows.get(none),
    (none) => rows.versions(none),
    (none) => rows.delete(none),
    (none) => rows.setPayload(none),
    (none) => rows.setPayload([none]),
    (none) => rows.setLimits(none),
    (none) => rows.explain(none, "a"),
    (none) => rows.explain({ query_id: none }, "a"),
    (none) => rows.addIndex(none, "number"),
    (none) => rows.dropIndex(none),
    (none) => rows.duplicates(none),
    (none) => all(rows.duplicatesStream(none)),
  ];
  for (const call of calls) {
    for (const none of [undefined, null, 3]) {
      // Whole numbers are ids.
      if (none !== 3 || !/queryId|queryExamples\(\[|query_id/.test(call.toString())) {
        await rejected(call(none as never), InvalidArgument).catch((error: unknown) =>
          assert.fail(`${call.toString()} of ${String(none)}: ${String(error)}`),
        );
      }
    }
  }
  for (const call of [
    () => client.query([1], null as never),
    () => client.collections(null as never),
    () => rows.recall(null as never),
    () => all(rows.items(null as never)),
    () => all(rows.pages(null as never)),
    () => client.waitReady(null as never),
    () => client.createCollection("c", null as never),
    () => client.dropCollection("c", { damaged: "true" } as never),
    () => client.queryEach([{ vector: [1] }], { k: 3 } as never),
  ]) {
    await rejected<InvalidArgument>(call(), InvalidArgument);
  }
  for (const none of [undefined, null, 3]) assert.throws(() => client.collection(none as never), InvalidArgument);
  assert.equal(server.requests.length, 0);
});
