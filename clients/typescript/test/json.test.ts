import assert from "node:assert/strict";
import { createHash, randomBytes } from "node:crypto";
import { test } from "node:test";
import { InvalidArgument } from "kinbin-client";
import { fromJson, toJson } from "../dist/json.js";
import { headerStop, idsHeader, npyFile, rowsOf } from "../dist/matrices.js";
import { Sha256 } from "../dist/sha256.js";

test("what is written is what JSON.stringify writes, wherever that loses nothing", () => {
  const values = [
    null,
    true,
    -0,
    1e300,
    5e-324,
    0.1,
    'a\u2028\ud800"\\',
    [],
    {},
    [1, "2", null, [3]],
    { a: { b: [] }, c: undefined, "": 1 },
    new Date(0),
    [[1.5, 2], [3]],
  ];
  for (const value of values) assert.equal(toJson(value, "value"), JSON.stringify(value));
  assert.equal(toJson(Float32Array.of(0.5, 3), "value"), "[0.5,3]");
  assert.equal(toJson({ indices: [1, 2n ** 62n + 1n] }, "value"), '{"indices":[1,4611686018427387905]}');
});

test("what JSON.stringify would change is refused, with the place and the code", () => {
  const circle: unknown[] = [];
  circle.push(circle);
  const holed = [1, 2, 3];
  delete holed[1];
  for (const value of [NaN, [1, Infinity], Float64Array.of(-Infinity), new Map(), [undefined], () => 1, circle, holed, Symbol("s")]) {
    assert.throws(
      () => toJson(value, "vector", 3, "bad_vector"),
      (error) => error instanceof InvalidArgument && error.position === 3,
    );
  }
  assert.throws(() => toJson([1, NaN], "vector"), { code: "non_finite", message: /the vector has no JSON form/ });
  assert.throws(() => toJson([new Set()], "vector", null, "bad_vector"), { code: "bad_vector" });
});

test("features that no number holds are read as bigint and written again to the digit, and all else is as JSON.parse reads it", () => {
  const large = "9223372036854775807";
  const text = `{"items":[{"id":"a","vector":{"indices":[3, 9007199254740991,${large}],"values":[1,0.1234567890123456789]},
    "payload":{"indices":[${large}],"n":${large},"text":"\\"indices\\":[${large}]"}}]}`;
  const read = fromJson(text) as { items: [{ vector: object; payload: object }] };
  assert.deepEqual(read.items[0].vector, { indices: [3, 9007199254740991, BigInt(large)], values: [1, 0.1234567890123456789] });
  assert.deepEqual(read.items[0].payload, { indices: [BigInt(large)], n: BigInt(large), text: `"indices":[${large}]` });
  assert.equal(toJson(read.items[0].vector, "vector"), `{"indices":[3,9007199254740991,${large}],"values":[1,0.12345678901234568]}`);
  const terms = fromJson(`{"terms":[{"feature": ${large},"part":1},{"feature":17}],"payload":{"feature":${large}}}`) as { payload: object };
  assert.deepEqual(terms, { terms: [{ feature: BigInt(large), part: 1 }, { feature: 17 }], payload: { feature: BigInt(large) } });
  const small = '{"vector":{"indices":[1,2]},"at":0.12345678901234567}';
  assert.deepEqual(fromJson(small), JSON.parse(small));
  assert.throws(() => fromJson('{"indices":[12345678901234567890'), SyntaxError);
});

test("whole numbers of payloads that are no safe integers are read as bigint, at any depth, and written again to the digit", () => {
  const payload =
    '{"n":12345678901234567890,"least":-9223372036854775808,"safe":9007199254740991,"next":9007199254740992,"float":12345678901234567.5,' +
    '"power":1e+20,"deep":[{"of":[1,-12345678901234567]}],"text":", 12345678901234567890, \\\\","\\u0000k":"\\u000012345678901234567890"}';
  const { items } = fromJson(`{"items": [{"id":"a","payload": ${payload}}],"total":12345678901234567890}`) as {
    items: [{ payload: unknown }];
  };
  assert.deepEqual(items[0].payload, {
    ...{ n: 12345678901234567890n, least: -(2n ** 63n), safe: 9007199254740991, next: 2n ** 53n, float: 12345678901234568, power: 1e20 },
    ...{ deep: [{ of: [1, -12345678901234567n] }], text: ", 12345678901234567890, \\", "\u0000k": "\u000012345678901234567890" },
  });
  assert.equal(toJson({ n: 12345678901234567890n, s: [-(2n ** 63n)] }, "payload"), '{"n":12345678901234567890,"s":[-9223372036854775808]}');
  const facets = fromJson('{"values":[{"value":12345678901234567890,"count":1}],"distinct":1}');
  assert.deepEqual(facets, { values: [{ value: 12345678901234567890n, count: 1 }], distinct: 1 });
  assert.deepEqual(fromJson('{"total":12345678901234567890}'), { total: 12345678901234567890 });
});

test("SHA-256 is that of Node, for every length around a block and however the bytes are cut", () => {
  for (const length of [0, 1, 54, 55, 56, 57, 63, 64, 65, 119, 120, 128, 1000, 70_001]) {
    const bytes = randomBytes(length);
    const digest = new Sha256();
    for (let at = 0; at < length;) {
      const next = Math.min(length, at + 1 + Math.floor(Math.random() * 150));
      digest.update(bytes.subarray(at, next));
      at = next;
    }
    assert.equal(digest.hex(), createHash("sha256").update(bytes).digest("hex"), `of ${length} bytes`);
  }
});

test("a matrix becomes an .npy file of format 1.0 whose head is a multiple of 64 bytes", () => {
  const matrix = { values: Float32Array.of(1, 2, 3, 4, 5, 6), columns: 2 };
  assert.equal(rowsOf(matrix), 3);
  const file = Buffer.from(npyFile(matrix, 1, 3));
  assert.equal(file.subarray(0, 8).toString("latin1"), "\x93NUMPY\x01\x00");
  const head = file.readUInt16LE(8);
  assert.equal((10 + head) % 64, 0);
  assert.match(file.subarray(10, 10 + head).toString(), /^\{'descr': '<f4', 'fortran_order': False, 'shape': \(2, 2\), \} *\n$/);
  assert.deepEqual(
    [0, 1, 2, 3].map((place) => file.readFloatLE(10 + head + 4 * place)),
    [3, 4, 5, 6],
  );
  assert.equal(Buffer.from(npyFile({ values: Float64Array.of(0.1), columns: 1 }, 0, 1)).readDoubleLE(128), 0.1);
  assert.throws(() => rowsOf({ values: Float32Array.of(1, 2, 3), columns: 2 }), { code: "bad_parameter" });
  assert.throws(() => rowsOf({ values: Float32Array.of(1, 2, NaN, 4), columns: 2 }), { code: "non_finite", position: 1 });
});

test("ids travel in a header as ASCII, as many as there is room for", () => {
  assert.equal(idsHeader(["a", 'ü"', "😀\u007f"]), '["a","\\u00fc\\"","\\ud83d\\ude00\\u007f"]');
  const ids = Array.from({ length: 9_000 }, (_, place) => `id-${place}`);
  const stop = headerStop(ids, 0, ids.length);
  assert.ok(idsHeader(ids.slice(0, stop)).length <= 30_000 && idsHeader(ids.slice(0, stop + 1)).length > 30_000);
  assert.equal(headerStop(["x".repeat(40_000), "b"], 0, 2), 1);
});
