/** Tokens of writes, reads that wait for them, and answers of a part of the shards. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Client } from "kinbin-client";
import { joined } from "../dist/own.js";
import { type Behaviour, problem, type Received, scripted } from "./support.js";

function token(uid: string, ...pairs: [number, number][]): string {
  return Buffer.from(JSON.stringify([uid, pairs])).toString("base64url");
}

/** Answers writes with the next token, and reads of a part of the shards. */
function gateway(...tokens: string[]): Behaviour {
  const written = { indexed: 1, updated: 0, unchanged: 0, deleted: 1, count: 1, took_ms: 1 };
  const part = { partial: true, shards_missing: [1] };
  const read = { results: [], items: [], missing: [], values: [], count: 3, next: null, took_ms: 1 };
  return (response, request) => {
    const isWrite = /\/(index|delete)$/.test(request.path);
    const asked = request.body.includes('"queries"') ? { answers: [read], took_ms: 1 } : read;
    const answer = isWrite ? { ...written, ...(tokens.length > 0 ? { token: tokens.shift() } : {}) } : { ...asked, ...part };
    response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(answer));
  };
}

const after = (requests: Received[]): unknown[] => requests.map(({ headers }) => headers["x-kinbin-after"] ?? null);

test("reads carry a token and take a part", async () => {
  const { client, requests } = await scripted(gateway());
  const photos = client().collection("c");
  const asked = { after: "t1", allow_partial: true };
  const answers = [
    await photos.query([1], asked),
    await photos.queryId("a", asked),
    await photos.queryBatch([[1]], asked),
    await photos.queryEach([{ vector: [1] }], asked),
    await photos.get(["a"], asked),
    await photos.facets("f", asked),
    await photos.counted(null, asked),
    await photos.scroll({ token: "t1", allow_partial: true, after: "cursor" }),
  ];
  for (const { partial, shards_missing } of answers) assert.deepEqual([partial, shards_missing], [true, [1]]);
  for (const { headers, body } of requests) {
    assert.equal(headers["x-kinbin-after"], "t1");
    assert.match(body, /"allow_partial":true/);
    assert.doesNotMatch(body, /t1/);
  }
  assert.equal(await photos.count(null, { after: "t2" }), 3);
  assert.equal(requests.at(-1)?.headers["x-kinbin-after"], "t2");
});

test("an add of several requests has one token for all", async () => {
  const { client } = await scripted(gateway(token("u", [0, 5], [1, 7]), token("u", [1, 9], [2, 1])));
  const items = ["a", "b"].map((id) => ({ id, vector: [1] }));
  assert.equal((await client().collection("c").add(items, { maxItems: 1 })).token, token("u", [0, 5], [1, 9], [2, 1]));
  assert.equal((await client().collection("c").add(items)).token, null);
});

test("of another collection, or another form, the later token counts", () => {
  assert.equal(joined(token("u", [0, 5]), token("v", [0, 1])), token("v", [0, 1]));
  assert.equal(joined(token("u", [0, 5]), "later form"), "later form");
  assert.equal(joined(token("u", [0, 5]), null), token("u", [0, 5]));
});

async function writeAndRead(client: Client): Promise<void> {
  const photos = client.collection("c");
  await photos.add([{ id: "a", vector: [1] }]);
  await photos.delete({ ids: ["b"] });
  await photos.count();
  await client.collection("d").count();
}

test("reads wait for the writes of their client, where it asks for that", async () => {
  const own = await scripted(gateway(token("u", [0, 5]), token("u", [1, 2])));
  await writeAndRead(own.client({ readYourWrites: true }));
  assert.deepEqual(after(own.requests), [null, null, token("u", [0, 5], [1, 2]), null]);
  const plain = await scripted(gateway(token("u", [0, 5]), token("u", [1, 2])));
  await writeAndRead(plain.client());
  assert.deepEqual(after(plain.requests), [null, null, null, null]);
});

test("a name that leads elsewhere is read without the old token", async () => {
  const answers = gateway(token("u", [0, 5]));
  const { client, requests } = await scripted(answers, problem(422, "bad_parameter"), answers);
  const photos = client({ readYourWrites: true }).collection("c");
  await photos.add([{ id: "a", vector: [1] }]);
  assert.deepEqual([await photos.count(), await photos.count()], [3, 3]);
  assert.deepEqual(after(requests), [null, token("u", [0, 5]), null, null]);
});

test("a new collection says how it lies on the nodes", async () => {
  const about = { name: "c", count: 0, stats: {}, cluster: { shards: 4, replicas: 2 } };
  const { client, requests } = await scripted((response, request) => {
    response.writeHead(request.method === "PUT" ? 201 : 200, { "content-type": "application/json" }).end(JSON.stringify(about));
  });
  const photos = await client().createCollection("c", { dim: 3, cluster: { shards: 4, replicas: 2 } });
  assert.deepEqual(JSON.parse(requests[0]?.body ?? ""), { dim: 3, cluster: { shards: 4, replicas: 2 } });
  assert.deepEqual((await photos.info()).cluster, { shards: 4, replicas: 2 });
});
