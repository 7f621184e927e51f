/** What only a real service shows. */
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  Conflict,
  InvalidArgument,
  InvalidInput,
  NotFound,
  TooLarge,
  Unauthorized,
  UnexpectedResponse,
  type Collection,
  type Configuration,
  type Payload,
} from "kinbin-client";
import { all, live, rejected } from "./support.js";

const client = live();

/** A new collection; the tests run side by side, each in one of its own. */
async function fresh<P extends object = Payload>(name: string, configuration: Configuration = { dim: 3 }): Promise<Collection<P>> {
  if ((await client.collections()).includes(name)) await client.dropCollection(name);
  return client.createCollection<P>(name, configuration);
}

test("without the right key nothing but health is answered", async () => {
  for (const apiKey of [undefined, "another-key"]) {
    const stranger = live({ apiKey });
    assert.equal((await stranger.health()).status, "ready");
    assert.equal((await rejected(stranger.query([1]), Unauthorized)).code, "unauthorized");
  }
});

test("what is added is found, with its payload, a bound, and in the order of the scores", async () => {
  const photos = await fresh<{ year: number }>("ts-found");
  const added = await photos.add([
    { id: "a", vector: [0.1, 0, 2.5], payload: { year: 2020 } },
    { id: "b", vector: { indices: [0, 2], values: [1, 1] }, payload: { year: 2021 } },
    { id: "c", vector: Float64Array.of(3, 1, 0) },
  ]);
  assert.deepEqual([added.indexed, added.count, added.skipped], [3, 3, 0]);
  const answer = await photos.query([0.1, 0, 2.5], { k: 2, include: ["payload", "vector"] });
  assert.deepEqual(
    answer.results.map(({ id }) => id),
    ["a", "b"],
  );
  assert.equal(answer.results[0]?.score, 1);
  // Typed: a number, without a cast.
  const year: number | undefined = answer.results[0]?.payload?.year;
  assert.equal(year, 2020);
  assert.deepEqual(Float32Array.from(answer.results[0]?.vector as number[]), Float32Array.of(0.1, 0, 2.5));
  assert.equal(answer.recall_lower_bound, 1);
  assert.deepEqual(
    (await photos.query([0.1, 0, 2.5], { filter: { year: { $gt: 2020 } } })).results.map(({ id }) => id),
    ["b"],
  );
  assert.deepEqual(
    (await photos.queryId("a", { k: 1 })).results.map(({ id }) => id),
    ["b"],
  );
  assert.deepEqual(
    (await photos.queryExamples(["a"], [[3, 1, 0]], { k: 1 })).results.map(({ id }) => id),
    ["b"],
  );
  assert.equal((await rejected(photos.queryId("nobody"), NotFound)).code, "unknown_id");
});

test("tokens come back with features of 63 bits, to the digit, and find their item again", async () => {
  const texts = await fresh("ts-tokens", {});
  await texts.add([
    { id: "x", vector: { tokens: { red: 3, apple: 1 } } },
    { id: "y", vector: ["quick", "brown", "fox"] },
  ]);
  const { items } = await texts.get(["x"]);
  const vector = items[0]?.vector;
  assert.ok(vector && "indices" in vector && vector.indices.some((feature) => typeof feature === "bigint"));
  assert.equal((await texts.query(vector, { k: 1 })).results[0]?.score, 1);
  assert.equal((await texts.query(["fox", "quick", "brown"], { k: 1 })).results[0]?.id, "y");
  const [line] = await all(texts.exportLines());
  const copy = await fresh("ts-tokens-2", {});
  await all(copy.addLines(line ?? ""));
  assert.deepEqual((await copy.get(["x"])).items[0]?.vector, vector);
});

test("many items travel in several requests, in any form that is iterated over, and progress is told", async () => {
  const rows = await fresh("ts-many");
  async function* later(): AsyncGenerator<{ id: string; vector: number[] }> {
    for (let n = 0; n < 25; n++) yield { id: `i${String(n).padStart(2, "0")}`, vector: [n + 1, 1, 0] };
  }
  const told: [number, number | null][] = [];
  const added = await rows.add(later(), { maxItems: 10, onProgress: (done, total) => told.push([done, total]) });
  assert.deepEqual(
    [added.indexed, added.count, told],
    [
      25,
      25,
      [
        [10, null],
        [20, null],
        [25, null],
      ],
    ],
  );
  const matrix = { values: Float32Array.from({ length: 75 }, (_, place) => place + 1), columns: 3 };
  const ids = Array.from({ length: 25 }, (_, row) => `m-${row}-ü`);
  assert.equal((await rows.addMatrix(ids, matrix, { maxItems: 10 })).indexed, 25);
  assert.equal((await rows.addMatrix(null, matrix)).ids?.length, 25);
  assert.equal(await rows.count(), 75);
  const queries = ids.map((_, row) => Array.from(matrix.values.subarray(3 * row, 3 * row + 3)));
  const options = { k: 3, target_recall: 1 };
  const batch = await rows.queryBatch(queries, { ...options, maxItems: 10 });
  const streamed = await all(rows.queryStream(queries, { ...options, maxItems: 10 }));
  const ofMatrix = await rows.queryMatrix(matrix, { ...options, maxItems: 10 });
  const each = await rows.queryEach(
    queries.map((vector) => ({ vector, ...options })),
    { maxItems: 10 },
  );
  const scores = (answers: typeof streamed): unknown => answers.map(({ results }) => results.map(({ score }) => score));
  for (const answers of [streamed, ofMatrix.answers, each.answers]) assert.deepEqual(scores(answers), scores(batch.answers));
  assert.ok(batch.answers.every(({ results }) => results[0]?.score === 1));
  // More hits than the service returns for one request.
  assert.equal((await rows.queryBatch(queries, { k: 1_000, include: ["payload"] })).answers.length, 25);
  assert.ok(
    (await all(rows.exportLines({ limit: 1_000 }))).every((line) => Object.keys(JSON.parse(line) as object).join() === "id,vector"),
  );
});

test("scrolling yields every item once, in pages, and only as far as is asked for", async () => {
  const rows = await fresh<{ n: number }>("ts-scroll");
  await rows.add(Array.from({ length: 25 }, (_, n) => ({ id: `i${n}`, vector: [n + 1, 1, 0], payload: { n } })));
  const pages = await all(rows.pages({ limit: 10 }));
  assert.deepEqual(
    pages.map(({ items }) => items.length),
    [10, 10, 5],
  );
  assert.deepEqual(
    (await all(rows.items({ limit: 7 }))).map(({ id }) => id),
    pages.flatMap(({ items }) => items.map(({ id }) => id)),
  );
  const ordered = await all(rows.items({ limit: 4, order_by: "n", descending: true, filter: { n: { $lt: 10 } } }));
  assert.deepEqual(
    ordered.map(({ payload }) => payload?.n),
    [9, 8, 7, 6, 5, 4, 3, 2, 1, 0],
  );
  for await (const item of rows.items({ limit: 1 })) {
    assert.ok(item.id);
    break;
  }
  const lines = await all(rows.exportLines({ limit: 10 }));
  assert.ok(lines.every((line) => line.endsWith("\n") && !line.includes("null")));
  const copy = await fresh<{ n: number }>("ts-scroll-2");
  const receipts = await all(copy.addLines(new Blob(lines)));
  assert.deepEqual([receipts.at(-1)?.indexed, receipts.at(-1)?.done], [25, true]);
  assert.deepEqual(await all(copy.exportLines()), lines);
});

test("a stream of lines is read while it is sent, and told by receipts", async () => {
  const rows = await fresh("ts-lines");
  const line = (n: number): string => `${JSON.stringify({ id: `i${n}`, vector: [n + 1, 1, 0] })}\n`;
  const encoder = new TextEncoder();
  let n = 0;
  const body = new ReadableStream<Uint8Array>({
    pull: (controller) =>
      n < 2_500 ? controller.enqueue(encoder.encode(Array.from({ length: 250 }, () => line(n++)).join(""))) : controller.close(),
  });
  const receipts = await all(rows.addLines(body));
  assert.equal(receipts.at(-1)?.count, 2_500);
  assert.ok(receipts.every(({ lines }, place) => place === 0 || lines >= (receipts[place - 1]?.lines ?? 0)));
  const bad = await rejected(all(rows.addLines(`${line(1)}{"id":"z","vector":[0,0,0]}\n`)), InvalidInput);
  assert.deepEqual([bad.code, bad.errors[0]?.pointer, bad.acknowledged], ["zero_vector", "#/items/1/vector", 0]);
  const skipped = await all(rows.addLines(`${line(1)}{"id":"z","vector":[0,0,0]}\n`, { on_error: "skip" }));
  assert.equal(skipped.at(-1)?.skipped, 1);
});

test("an error in a later request tells its place in the whole add, and what was acknowledged", async () => {
  const rows = await fresh("ts-places");
  const items = Array.from({ length: 25 }, (_, n) => ({ id: `i${n}`, vector: n === 23 ? [0, 0, 0] : [n + 1, 1, 0] }));
  const refused = await rejected(rows.add(items, { maxItems: 10 }), InvalidInput);
  assert.deepEqual([refused.code, refused.errors[0]?.pointer, refused.acknowledged], ["zero_vector", "#/items/23/vector", 20]);
  assert.match(refused.message, /20 items of this add had been acknowledged/);
  const skipped = await rows.add(items, { maxItems: 10, on_error: "skip" });
  assert.deepEqual([skipped.skipped, skipped.problems[0]?.pointer, skipped.count], [1, "#/items/23/vector", 24]);
  const broken = items.map((item) => (item.id === "i12" ? { id: "i12", vector: [NaN, 1, 1] } : item));
  const local = await rejected(rows.add(broken, { maxItems: 10 }), InvalidArgument);
  assert.deepEqual([local.code, local.position, local.acknowledged], ["non_finite", 12, 10]);
  const twice = await rejected(rows.add([items[0]!, items[1]!, items[0]!]), InvalidArgument);
  assert.deepEqual([twice.code, twice.position], ["duplicate_id", 2]);
  const query = await rejected(
    rows.queryBatch(
      items.map(({ vector }) => vector),
      { maxItems: 10 },
    ),
    InvalidInput,
  );
  assert.equal(query.errors[0]?.pointer.startsWith("#/queries/23"), true);
});

test("versions guard writes, patches merge, and an insert under one key is done once", async () => {
  const rows = await fresh<{ year: number; tag?: string }>("ts-versions");
  const item = { id: "a", vector: [1, 2, 3], payload: { year: 2020, tag: "red" } };
  await rows.add([item], { mode: "insert", idempotencyKey: "once" });
  assert.equal((await rows.add([item], { mode: "insert", idempotencyKey: "once" })).indexed, 1);
  assert.equal((await rejected(rows.add([item], { mode: "insert" }), Conflict)).code, "item_conflict");
  const [version, none] = await rows.versions(["a", "b"]);
  assert.equal(none, 0);
  await rows.patchPayload([{ id: "a", payload: { tag: null }, if_version: version ?? null }]);
  assert.deepEqual((await rows.get(["a"], { include: ["payload"] })).items[0]?.payload, { year: 2020 });
  assert.equal(
    (await rejected(rows.setPayload([{ id: "a", payload: { year: 1 }, if_version: version ?? null }]), Conflict)).code,
    "version_conflict",
  );
  await rejected(rows.dropIndex("year"), InvalidInput);
  assert.equal((await rows.delete({ filter: { year: 2020 } })).deleted, 1);
  await rejected(rows.delete({ ids: ["a"], filter: {} } as never), InvalidArgument);
});

test("whole numbers of payloads, and as ids, are kept to the digit, and exported so", async () => {
  const rows = await fresh("ts-whole");
  const payload = { n: 12345678901234567890n, deep: { least: -(2n ** 63n), safe: 5 } };
  await rows.add([
    { id: 7, vector: [1, 2, 3], payload },
    { id: 2n ** 64n - 1n, vector: [3, 2, 1] },
  ]);
  const { items, missing } = await rows.get([7, "18446744073709551615", 8]);
  assert.deepEqual([items.map(({ id }) => id), missing], [["7", "18446744073709551615"], ["8"]]);
  assert.deepEqual(items[0]?.payload, payload);
  assert.deepEqual((await rows.query([1, 2, 3], { k: 1, include: ["payload"] })).results[0]?.payload, payload);
  assert.deepEqual(
    (await rows.query([1, 2, 3], { exclude: [7] })).results.map(({ id }) => id),
    ["18446744073709551615"],
  );
  assert.equal(await rows.count({ n: 12345678901234567890n }), 1);
  assert.equal((await rows.facets("n")).values[0]?.value, 12345678901234567890n);
  const lines = await all(rows.exportLines());
  assert.ok(lines.some((line) => /"n":12345678901234567890[,}]/.test(line)));
  const copy = await fresh("ts-whole-2");
  await all(copy.addLines(new Blob(lines)));
  assert.deepEqual((await copy.get([7], { include: ["payload"] })).items[0]?.payload, payload);
});

test("a delete on condition of versions deletes all of its items or none", async () => {
  const rows = await fresh("ts-conditional");
  await rows.add(["a", "b"].map((id) => ({ id, vector: [1, 2, 3] })));
  const versions = await rows.versions(["a", "b"]);
  const refused = rows.delete({ ids: ["a", "b"], if_versions: [versions[0]!, versions[1]! + 1] });
  assert.equal((await rejected(refused, Conflict)).code, "version_conflict");
  assert.equal(await rows.count(), 2);
  assert.equal((await rows.delete({ ids: ["a", "b"], if_versions: versions })).deleted, 2);
});

test("objects and several fields are asked for under their names", async () => {
  const words = await fresh("ts-words", { items: "strings", distance: "levenshtein" });
  await words.add([
    { id: "1", string: "kitten" },
    { id: "2", string: "mitten" },
  ]);
  const near = await words.query({ string: "sitting" }, { max_distance: 3, include: ["vector"] });
  assert.deepEqual(
    near.results.map(({ id, distance, string }) => [id, distance, string]),
    [
      ["1", 3, "kitten"],
      ["2", 3, "mitten"],
    ],
  );
  assert.deepEqual(
    (await words.queryBatch([{ string: "kitten" }, { string: "mitten" }], { k: 1 })).answers.map(({ results }) => results[0]?.id),
    ["1", "2"],
  );
  const pictures = await fresh("ts-fields", { fields: { colour: { kernel: "ngmm", dim: 3 }, words: { kernel: "ngmm" } } });
  await pictures.add([
    { id: "a", vectors: { colour: [0.1, 0, 2.5], words: ["red", "apple"] } },
    { id: "b", vectors: { colour: Float32Array.of(1, 1, 0), words: ["sky"] } },
  ]);
  const combined = await pictures.query({ vectors: { colour: [1, 1, 0], words: ["red"] }, weights: { colour: 0.9, words: 0.1 } }, { k: 1 });
  assert.deepEqual([combined.results[0]?.id, Object.keys(combined.results[0]?.parts ?? {}).sort()], ["b", ["colour", "words"]]);
  assert.equal((await pictures.queryId("a", { k: 1, fields: ["words"] })).results[0]?.id, "b");
});

/** A picture of one pixel. */
const PIXEL = Buffer.from("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC", "base64");

test("images travel as files and as bytes, and find each other", async () => {
  const pictures = await fresh<{ from: string }>("ts-images", { items: "images" });
  const added = await pictures.addImages([{ id: "dot ü", image: new Blob([PIXEL]), payload: { from: "a file" } }]);
  assert.equal(added.indexed, 1);
  await pictures.add([{ id: "again", image: new Uint8Array(PIXEL) }]);
  const answer = await pictures.query({ image: new Blob([PIXEL]) }, { include: ["payload"] });
  assert.deepEqual(
    new Map(answer.results.map(({ id, score }) => [id, score])),
    new Map([
      ["dot ü", 1],
      ["again", 1],
    ]),
  );
  assert.equal(answer.results.find(({ id }) => id === "dot ü")?.payload?.from, "a file");
});

test("an explanation's parts add up to the score, and features of tokens are told to the digit", async () => {
  const texts = await fresh("ts-explained", {});
  await texts.add([
    { id: "a", vector: { tokens: { red: 3, apple: 1 } } },
    { id: "b", vector: { tokens: { red: 1, sky: 2 } } },
  ]);
  const { score } = (await texts.queryId("b", { k: 1 })).results[0] ?? {};
  for (const told of [
    await texts.explain({ query_id: "b" }, "a"),
    await texts.explain({ tokens: { red: 1, sky: 2 } }, "a", { limit: 1 }),
  ]) {
    const parts = [...told.terms, ...told.constants, told.rest].reduce((sum, { part }) => sum + part, 0);
    assert.ok(Math.abs(parts - told.sum) < 1e-9 && Math.abs(told.score - (score ?? 0)) < 1e-6);
    const { items } = await texts.get(["a"]);
    const vector = items[0]?.vector;
    assert.ok(vector && "indices" in vector && vector.indices.includes(told.terms[0]?.feature ?? 0));
  }
});

test("duplicates come at once or one by one, as pairs or clusters, with what may have been overlooked", async () => {
  const rows = await fresh("ts-duplicates");
  await rows.add(["a", "b", "c", "d"].map((id, n) => ({ id, vector: n < 3 ? [1, 2, 3 + n / 1000] : [3, 0, 0] })));
  const { pairs, complete } = await rows.duplicates({ min_score: 0.99 });
  assert.deepEqual([pairs.length, complete], [3, true]);
  const streamed = rows.duplicatesStream({ min_score: 0.99, as: "clusters" });
  const first = await streamed.next();
  assert.ok(!first.done);
  assert.deepEqual([first.value.keep, [...first.value.ids].sort()], ["a", ["a", "b", "c"]]);
  const last = await streamed.next();
  assert.deepEqual([last.done, (last.value as { complete: boolean }).complete], [true, true]);
  await rejected(all(rows.duplicatesStream({ min_score: 7 })), InvalidInput);
});

test("a map has a place for each item of the sample, with the fields that were asked for", async () => {
  const rows = await fresh<{ n: number; more: string }>("ts-map");
  await rows.add(Array.from({ length: 20 }, (_, n) => ({ id: `i${n}`, vector: [1 + (n % 7), 1 + (n % 5), 1], payload: { n, more: "x" } })));
  const { points } = await rows.map({ sample: 10, fields: ["n"], filter: { n: { $lt: 15 } } });
  assert.equal(points.length, 10);
  for (const { x, y, payload } of points) {
    assert.ok(Number.isFinite(x) && Number.isFinite(y) && payload?.n !== undefined && payload.n < 15 && payload.more === undefined);
  }
});

test("recall is measured, and other bands are judged and taken", async () => {
  const rows = await fresh("ts-tuned");
  await rows.add(Array.from({ length: 60 }, (_, n) => ({ id: `i${n}`, vector: [1 + (n % 7), 1 + (n % 5), 1 + (n % 3)] })));
  const { modes, sampled } = await rows.recall(20, { k: 3, modes: ["exact"] });
  assert.deepEqual([sampled, modes.map(({ mode, recall }) => [mode, recall])], [true, [["exact", 1]]]);
  assert.equal((await rows.recall([[1, 2, 3], Float32Array.of(3, 2, 1)], { k: 3 })).queries, 2);
  const told = await rows.tune({ sample: 20, choices: [{ rows: 1, bands: 16 }] });
  assert.deepEqual(
    told.bands.map(({ rows: r, bands }) => [r, bands]),
    [[1, 16]],
  );
  assert.equal((await rows.rebuild({ rows: 1, bands: 16 })).count, 60);
});

test("a collection that is there is a conflict, or taken if it is alike", async () => {
  await fresh("ts-there");
  const error = await rejected(client.createCollection("ts-there", { dim: 3 }), Conflict);
  assert.equal(error.code, "collection_exists");
  assert.equal((await client.createCollection("ts-there", { dim: 3, existOk: true })).name, "ts-there");
  assert.equal((await rejected(client.createCollection("ts-there", { dim: 4, existOk: true }), Conflict)).status, 409);
  assert.equal((await rejected(client.collection("ts-nowhere").count(), NotFound)).code, "collection_not_found");
});

test("a body over the limit is told, though the service stops reading while it is sent", async () => {
  const rows = await fresh("ts-large");
  const limit = (await client.limits()).index_body_bytes?.value ?? 0;
  const text = "x".repeat(limit + 1_000_000);
  // Whether the answer is heard is a race, so it is run more than once.
  for (let time = 0; time < 4; time++) {
    const error = await rejected(rows.add([{ id: "a", vector: [1, 2, 3], payload: { text } }]), TooLarge);
    assert.deepEqual([error.code, error.limit, error.acknowledged], ["body_too_large", "index_body_bytes", 0]);
  }
});

test("a snapshot is downloaded, uploaded and restored, and damage on the way is told", async () => {
  const rows = await fresh("ts-kept");
  await rows.add([{ id: "a", vector: [1, 2, 3] }]);
  const made = await client.snapshots.create("ts-kept");
  const file = new Blob(await all(client.snapshots.download("ts-kept", made.id)));
  assert.equal(file.size, made.bytes);
  if ((await client.collections()).includes("ts-kept-2")) await client.dropCollection("ts-kept-2");
  const copy = await client.restore(file, "ts-kept-2");
  assert.deepEqual(await all(copy.exportLines()), await all(rows.exportLines()));
  await client.dropCollection("ts-kept-2");
  await client.restore(file.stream(), "ts-kept-2");
  const flipping: typeof fetch = async (input, init) => {
    const response = await fetch(input, init);
    const bytes = new Uint8Array(await response.arrayBuffer());
    bytes[100]! ^= 1;
    return new Response(bytes, response);
  };
  await rejected(all(live({ fetch: flipping }).snapshots.download("ts-kept", made.id)), UnexpectedResponse);
  await client.snapshots.delete("ts-kept", made.id);
});

test("the mistake in a name or an option is answered with what was meant", async () => {
  const rows = await fresh("ts-mistakes");
  const error = await rejected(rows.query([1, 2, 3], { mode: "bandz" as never }), InvalidInput);
  assert.equal(error.errors[0]?.pointer, "#/mode");
  await rejected(rows.query({} as never), InvalidArgument);
  await rejected(rows.get("a" as never), InvalidArgument);
});
