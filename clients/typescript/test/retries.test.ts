import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type AddressInfo } from "node:net";
import { test } from "node:test";
import {
  ApiError,
  BadRequest,
  ClientClosed,
  Client,
  Conflict,
  ConnectionFailed,
  ConnectionLost,
  InvalidArgument,
  InvalidInput,
  KinbinClientError,
  NotFound,
  RateLimited,
  ServerError,
  StorageFull,
  Timeout,
  TooLarge,
  Unauthorized,
  Unavailable,
  UnexpectedResponse,
  UnsupportedMedia,
  Forbidden,
} from "kinbin-client";
import { mayRepeat, pauseOf, retryAfterOf } from "../dist/retry.js";
import { sleep } from "../dist/send.js";
import { translated } from "../dist/transport.js";
import { ADDED, all, type Behaviour, FOUND, hangUp, json, problem, rejected, scripted, silence } from "./support.js";

const RULE = { attempts: 4, firstPause: 200, longestPause: 10_000, longestRetryAfter: 60_000 };

test("pauses double between half and whole, up to the longest, behind what the service asks for", () => {
  assert.deepEqual(
    [1, 2, 3, 4].map((failures) => pauseOf(RULE, failures, null, 0)),
    [100, 200, 400, null],
  );
  assert.equal(pauseOf({ ...RULE, attempts: 99 }, 50, null, 1), 10_000);
  assert.equal(pauseOf(RULE, 1, 3_000, 0), 3_100);
  assert.equal(pauseOf(RULE, 1, 60_001, 0), null);
});

test("Retry-After is read as seconds and as a date", () => {
  const now = Date.parse("2024-01-01T00:00:00Z");
  assert.equal(retryAfterOf("7"), 7_000);
  assert.equal(retryAfterOf("Mon, 01 Jan 2024 00:00:09 GMT", now), 9_000);
  assert.equal(retryAfterOf("Sun, 31 Dec 2023 00:00:00 GMT", now), 0);
  assert.equal(retryAfterOf("soon"), null);
  assert.equal(retryAfterOf(null), null);
});

test("a request that may have been done is repeated only if doing it twice is the same", () => {
  const error = (status: number, code: string | null): ApiError => new ApiError({ status, code, detail: "" });
  const cases: [KinbinClientError, boolean, boolean][] = [
    [error(429, "overloaded"), true, true],
    [error(503, "not_ready"), true, true],
    [error(408, "body_timeout"), true, true],
    [error(503, "storage_busy"), true, false],
    [error(503, "outcome_unknown"), true, false],
    [error(503, null), true, false],
    [error(502, null), true, false],
    [error(504, null), true, false],
    [error(503, "search_deadline"), false, false],
    [error(500, "internal"), false, false],
    [error(507, "storage_full"), false, false],
    [error(409, "item_conflict"), false, false],
    [new ConnectionFailed("none"), true, true],
    [new ConnectionLost("lost"), true, false],
    [new Timeout("late"), true, false],
    [new UnexpectedResponse("page", 200), false, false],
    [new InvalidArgument("bad"), false, false],
  ];
  for (const [failure, always, ifNotDone] of cases) {
    assert.deepEqual([mayRepeat(failure, "always"), mayRepeat(failure, "if-not-done")], [always, ifNotDone], failure.message);
    assert.equal(mayRepeat(failure, "never"), false);
  }
});

test("a query that meets an overload, a proxy and a broken connection is sent until it is answered", async () => {
  const server = await scripted(problem(503, "not_ready"), json("bad gateway", 502), hangUp, json(FOUND));
  assert.equal((await server.client().query([1])).mode, "exact");
  assert.equal(server.requests.length, 4);
  assert.ok(server.requests.every(({ body }) => body === '{"vector":[1]}'));
});

test("attempts are counted, of the client and of a call", async () => {
  const server = await scripted(problem(429, "overloaded"));
  await rejected(server.client({ retry: { attempts: 2, firstPause: 1 } }).query([1]), RateLimited);
  assert.equal(server.requests.length, 2);
  await rejected(server.client().query([1], { retry: { attempts: 1 } }), RateLimited);
  assert.equal(server.requests.length, 3);
});

test("Retry-After is waited out, and told where it is too long", async () => {
  const server = await scripted(
    problem(429, "overloaded", {}, { "retry-after": "1" }),
    json(FOUND),
    problem(429, "overloaded", {}, { "retry-after": "61" }),
  );
  const began = Date.now();
  await server.client().query([1]);
  assert.ok(Date.now() - began >= 990);
  assert.equal((await rejected(server.client().query([1]), RateLimited)).retryAfter, 61_000);
  assert.equal(server.requests.length, 3);
});

test("writes that would meet their own work are not repeated after a broken connection", async () => {
  const done: ((client: Client) => Promise<unknown>)[] = [
    (client) => client.dropCollection("c"),
    (client) => client.dropAlias("c"),
    (client) => client.createCollection("c"),
    (client) => client.snapshots.create("c"),
    (client) => client.snapshots.delete("c", "s"),
    (client) => client.restore(new Blob(["s"]), "c"),
    (client) => client.collection("c").setPayload([{ id: "a", payload: null, if_version: 3 }]),
    (client) => all(client.addLines("{}\n", { mode: "insert" })),
    (client) => client.collection("c").rebuild(),
  ];
  for (const call of done) {
    const server = await scripted(hangUp);
    assert.equal((await rejected(call(server.client()), ConnectionLost)).outcomeUnknown, true);
    assert.equal(server.requests.length, 1, call.toString());
  }
  const again: ((client: Client) => Promise<unknown>)[] = [
    (client) => client.createCollection("c", { existOk: true }),
    (client) => client.collection("c").setPayload([{ id: "a", payload: null }]),
    (client) => client.collection("c").delete({ ids: ["a"] }),
    (client) => client.add([{ id: "a", vector: [1] }]),
    (client) => client.add([{ id: "a", vector: [1] }], { mode: "insert" }),
    (client) => client.addMatrix(null, { values: Float32Array.of(1), columns: 1 }),
  ];
  for (const call of again) {
    const server = await scripted(hangUp);
    await rejected(call(server.client({ retry: { attempts: 2, firstPause: 1 } })), ConnectionLost);
    assert.equal(server.requests.length, 2, call.toString());
  }
});

test("adds that could not be repeated without travel with a key, the same at every attempt and another for every request", async () => {
  const server = await scripted(hangUp, json(ADDED));
  const items = ["a", "b"].map((id) => ({ id, vector: [1] }));
  await server.client().add(items, { mode: "insert", maxItems: 1 });
  const keys = server.requests.map(({ headers }) => headers["idempotency-key"]);
  assert.match(String(keys[0]), /^[0-9a-f]{32}$/);
  assert.deepEqual(keys, [keys[0], keys[0], `${String(keys[0])}-1`]);
  const upsert = await scripted(json(ADDED));
  await upsert.client().add(items);
  await upsert.client().add(items, { idempotencyKey: "mine" });
  await upsert.client().add([{ ...items[0]!, if_version: 0 }]);
  const [none, mine, made] = upsert.requests.map(({ headers }) => headers["idempotency-key"]);
  assert.deepEqual([none, mine], [undefined, "mine"]);
  assert.match(String(made), /^[0-9a-f]{32}$/);
  await rejected(upsert.client().add(items, { idempotencyKey: "ü" }), InvalidArgument);
});

test("statuses become the classes of the tree, with all that the service told", async () => {
  const classes: [number, typeof ApiError][] = [
    [400, BadRequest],
    [401, Unauthorized],
    [403, Forbidden],
    [404, NotFound],
    [409, Conflict],
    [413, TooLarge],
    [415, UnsupportedMedia],
    [418, BadRequest],
    [422, InvalidInput],
    [500, ServerError],
    [507, StorageFull],
  ];
  for (const [status, kind] of classes) {
    const server = await scripted(
      problem(status, "a_code", { errors: [{ pointer: "#/queries/3/vector", detail: "this one" }], limit: "k" }),
    );
    const error = await rejected(server.client().query([1]), kind);
    assert.equal(error.name, kind.name);
    assert.deepEqual(
      [error.status, error.code, error.detail, error.limit, error.requestId, error.errors],
      [status, "a_code", "because of a_code", "k", "r1", [{ pointer: "#/queries/3/vector", detail: "this one" }]],
    );
    assert.equal(error.message, `${status} a_code: because of a_code [#/queries/3/vector: this one]`);
  }
});

test("an error of a proxy has no code, and shows the beginning of its page without credentials", async () => {
  const page: Parameters<typeof scripted>[0] = (response) =>
    response.writeHead(403, { "content-type": "text/html" }).end("<h1>No\n\u0007 Bearer abc.def</h1>");
  const error = await rejected((await scripted(page)).client().query([1]), Forbidden);
  assert.equal(error.code, null);
  assert.match(error.message, /perhaps from a proxy: <h1>No Bearer \*\*\*<\/h1>$/);
});

test("an address with a path too much is told where no route is found, and nowhere else", async () => {
  const page: Parameters<typeof scripted>[0] = (response) => response.writeHead(200, { "content-type": "text/html" }).end("<h1>Hello</h1>");
  const plain =
    (status: number): Parameters<typeof scripted>[0] =>
    (response) =>
      response.writeHead(status).end();
  for (const behaviour of [problem(405, "method_not_allowed"), problem(404, "not_found"), plain(404), plain(405), page]) {
    const server = await scripted(behaviour);
    const error = await rejected(server.client().query([1]), KinbinClientError);
    assert.ok(!error.message.includes(server.url), error.message);
    const led = await rejected(new Client(`${server.url}/dashboard/`).query([1]), KinbinClientError);
    assert.ok(led.message.endsWith(`${server.url}/dashboard: is ${server.url} meant, without /dashboard?`), led.message);
  }
  const found = await scripted(problem(404, "collection_not_found"));
  const missing = await rejected(new Client(`${found.url}/behind/a/proxy`).query([1]), NotFound);
  assert.equal(missing.message, "404 collection_not_found: because of collection_not_found");
});

test("answers that are none of Kinbin's are told as such", async () => {
  const broken =
    (text: string): Parameters<typeof scripted>[0] =>
    (response) =>
      response.writeHead(200, { "content-type": "application/json" }).end(text);
  for (const behaviour of [
    broken('{"results":'),
    broken("[]"),
    broken("null"),
    broken("{}"),
    json({}, 302, { location: "http://elsewhere/" }),
  ]) {
    const error = await rejected((await scripted(behaviour)).client().query([1]), UnexpectedResponse);
    assert.ok(error.status === 200 || /redirected to 'http:\/\/elsewhere\/'/.test(error.message));
  }
  const few = await scripted(json({ answers: [], took_ms: 1 }));
  await rejected(few.client().queryBatch([[1]]), UnexpectedResponse);
  const cursor = await scripted(json({ items: [], next: "x" }));
  await rejected(all(cursor.client().collection("c").items()), UnexpectedResponse);
});

test("silence longer than the timeout is a Timeout, of headers and within a body; a slow but steady answer is none", async () => {
  const options = { timeout: 500, retry: { attempts: 1 } };
  const server = await scripted(silence);
  assert.equal((await rejected(server.client(options).query([1]), Timeout)).outcomeUnknown, true);
  const half = await scripted((response) => response.writeHead(200, { "content-type": "application/json" }).write('{"results":'));
  await rejected(half.client(options).query([1]), Timeout);
  const steady = await scripted((response) => {
    const text = JSON.stringify(FOUND);
    response.writeHead(200, { "content-type": "application/json" });
    let at = 0;
    const timer = setInterval(() => {
      response.write(text.slice(at, (at += 12)));
      if (at >= text.length) {
        clearInterval(timer);
        response.end();
      }
    }, 60);
  });
  assert.equal((await steady.client(options).query([1])).mode, "exact");
  for (const timeout of [0, -1, NaN]) await rejected(server.client().query([1], { timeout }), InvalidArgument);
});

test("who takes an answer slowly is not taken for a silent service", async () => {
  const server = await scripted((response) => {
    response.writeHead(200, { "content-type": "application/x-ndjson" }).write('{"lines":1}\n');
    setTimeout(() => response.end('{"lines":2,"done":true}\n'), 100);
  });
  let lines = 0;
  for await (const receipt of server.client({ timeout: 300 }).addLines("{}")) {
    lines = receipt.lines;
    await sleep(500, undefined);
  }
  assert.equal(lines, 2);
});

test("an answer that breaks off is a lost connection", async () => {
  const server = await scripted((response) => {
    response.writeHead(200, { "content-type": "application/json", "content-length": "1000" }).write("{");
    setTimeout(() => response.socket?.destroy(), 10);
  });
  await rejected(server.client({ retry: { attempts: 1 } }).query([1]), ConnectionLost);
});

test("a connection that breaks under a large body is asked about: too large, or repeated as any other", async () => {
  const limits = (value: number): Behaviour => json({ limits: [{ name: "index_body_bytes", value, unit: "bytes", reason: "" }] });
  const items = [{ id: "a", vector: [1], payload: { text: "ü".repeat(600_000) } }];
  const strict = await scripted(hangUp, limits(1_200_000));
  const error = await rejected(strict.client().add(items), TooLarge);
  assert.deepEqual([error.code, error.limit, strict.requests.length], ["body_too_large", "index_body_bytes", 2]);
  const lenient = await scripted(hangUp, limits(1_300_000), json(ADDED));
  assert.equal((await lenient.client().add(items)).indexed, 1);
  assert.deepEqual(
    lenient.requests.map(({ path }) => path),
    ["/index", "/v1/limits", "/index"],
  );
});

test("no connection is told as nothing sent", async () => {
  const gone = createServer().listen(0, "127.0.0.1");
  await once(gone, "listening");
  const { port } = gone.address() as AddressInfo;
  gone.close();
  const error = await rejected(new Client(`http://127.0.0.1:${port}`, { retry: { attempts: 1 } }).health(), ConnectionFailed);
  assert.equal(error.outcomeUnknown, false);
  const blocked = await rejected(new Client("http://127.0.0.1:1", { retry: { attempts: 1 } }).health(), ConnectionFailed);
  assert.deepEqual([blocked.outcomeUnknown, blocked.message], [false, "http://127.0.0.1:1: no connection (bad port)"]);
  const late = translated(new TypeError("fetch failed", { cause: { code: "UND_ERR_CONNECT_TIMEOUT" } }), "http://a");
  assert.deepEqual([late.name, late instanceof ConnectionFailed], ["ConnectTimeout", true]);
  // What browsers say: nothing is known then.
  assert.equal(translated(new TypeError("Failed to fetch"), "http://a").name, "ConnectionLost");
});

test("a pause ends with the signal, if that was aborted before, too", async () => {
  const reason = new Error("enough");
  assert.equal(await rejected(sleep(60_000, AbortSignal.abort(reason)), Error), reason);
});

test("a call ends with its signal's reason: before it is sent, while it waits, between attempts, in a stream", async () => {
  const reason = new Error("enough");
  const aborted = new AbortController();
  aborted.abort(reason);
  const unasked = await scripted(json(FOUND));
  assert.equal(await rejected(unasked.client().query([1], { signal: aborted.signal }), Error), reason);
  assert.equal(unasked.requests.length, 0);
  for (const behaviour of [silence, problem(429, "overloaded", {}, { "retry-after": "30" })]) {
    const controller = new AbortController();
    setTimeout(() => controller.abort(reason), 50);
    const began = Date.now();
    assert.equal(await rejected((await scripted(behaviour)).client().query([1], { signal: controller.signal }), Error), reason);
    assert.ok(Date.now() - began < 5_000);
  }
  const endless = await scripted((response) => response.writeHead(200, { "content-type": "application/x-ndjson" }).write('{"lines":1}\n'));
  const controller = new AbortController();
  const receipts = endless.client().addLines("{}", { signal: controller.signal });
  assert.equal(((await receipts.next()).value as { lines: number }).lines, 1);
  controller.abort(reason);
  assert.equal(await rejected(receipts.next(), Error), reason);
});

test("closing ends what is under way, and every later call", async () => {
  const client = (await scripted(silence)).client();
  const photos = client.collection("photos");
  const pending = rejected(client.query([1]), ClientClosed);
  setTimeout(() => client.close(), 20);
  await pending;
  await rejected(photos.count(), ClientClosed);
});

test("a stream of lines is told as it arrives, and ends with its error or with a lost connection, and what was acknowledged", async () => {
  const ndjson =
    (...lines: string[]): Parameters<typeof scripted>[0] =>
    (response) => {
      response.writeHead(200, { "content-type": "application/x-ndjson" });
      // Cut in the middle of lines and of characters.
      const bytes = Buffer.from(lines.join(""));
      for (let at = 0; at < bytes.length; at += 7) response.write(bytes.subarray(at, at + 7));
      response.end();
    };
  const whole = await scripted(problem(503, "not_ready"), ndjson('{"lines":1000,"x":"ü"}\n\n', '{"lines":1500,"done":true}'));
  assert.deepEqual(
    (await all(whole.client().addLines("{}"))).map(({ lines }) => lines),
    [1000, 1500],
  );
  assert.equal(whole.requests[0]?.path, "/index?stream=true");
  const document = { status: 422, code: "bad_vector", detail: "no", errors: [{ pointer: "#/items/1001/vector", detail: "no" }] };
  const refused = await scripted(ndjson('{"lines":1000}\n', `${JSON.stringify({ lines: 1000, error: document })}\n`));
  const error = await rejected(all(refused.client().addLines("{}", { after: 10, mode: "insert" })), InvalidInput);
  assert.deepEqual([error.code, error.acknowledged, error.errors[0]?.pointer], ["bad_vector", 1000, "#/items/1001/vector"]);
  assert.equal(refused.requests[0]?.path, "/index?stream=true&after=10&mode=insert");
  for (const cut of ['{"lines":1000}\n{"li', '{"lines":1000}\n']) {
    assert.equal((await rejected(all((await scripted(ndjson(cut))).client().addLines("{}")), ConnectionLost)).acknowledged, 1000);
  }
  await rejected(all((await scripted(ndjson("{}\nno\n"))).client().addLines("{}")), UnexpectedResponse);
  await rejected(all((await scripted(json({}))).client().addLines("{}")), UnexpectedResponse);
  const streamed = await scripted(problem(503, "not_ready"));
  await rejected(all(streamed.client().addLines(new Blob(["{}"]).stream())), Unavailable);
  assert.equal(streamed.requests.length, 1);
});

test("a stream of duplicates ends with what is known of it, with its error, or with a lost connection", async () => {
  const found = '{"a":"1","b":"2","score":0.9}\n';
  const ndjson =
    (text: string): Behaviour =>
    (response) =>
      response.writeHead(200, { "content-type": "application/x-ndjson" }).end(text);
  const asked = { min_score: 0.9 };
  const whole = await scripted(ndjson(`${found}{"miss_probability":0.01,"compared":3,"complete":true}`));
  const stream = whole.client().collection("c").duplicatesStream(asked);
  assert.deepEqual((await stream.next()).value, { a: "1", b: "2", score: 0.9 });
  assert.equal(stream.summary, null);
  assert.deepEqual(await stream.next(), { done: true, value: { miss_probability: 0.01, compared: 3, complete: true } });
  assert.deepEqual(stream.summary, { miss_probability: 0.01, compared: 3, complete: true });
  assert.equal(whole.requests[0]?.headers.accept, "application/x-ndjson");
  const ended = await scripted(ndjson(`${found}{"error":{"status":503,"code":"stopping","detail":"no"}}`));
  await rejected(all(ended.client().collection("c").duplicatesStream(asked)), Unavailable);
  await rejected(all((await scripted(ndjson(found))).client().collection("c").duplicatesStream(asked)), ConnectionLost);
});

test("leaving a stream early ends its request", async () => {
  let ended: () => void;
  const closed = new Promise<void>((resolve) => (ended = resolve));
  const server = await scripted((response) => {
    response.on("close", () => ended());
    response.writeHead(200, { "content-type": "application/x-ndjson" }).write('{"lines":1}\n');
  });
  for await (const receipt of server.client().addLines("{}")) {
    assert.equal(receipt.lines, 1);
    break;
  }
  await closed;
});

test("the key is sent with every request, and is in no error and in nothing that is printed", async () => {
  const { inspect } = await import("node:util");
  const server = await scripted(problem(500, "internal"));
  const client = server.client({ apiKey: "canary-key", headers: { "X-Mine": "1" } });
  const error = await rejected(client.query([1]), ServerError);
  assert.equal(server.requests[0]?.headers.authorization, "Bearer canary-key");
  assert.equal(server.requests[0]?.headers["x-mine"], "1");
  for (const shown of [
    inspect(client, { depth: 9, showHidden: true }),
    inspect(error, { depth: 9 }),
    JSON.stringify(client),
    error.stack,
  ]) {
    assert.ok(!shown?.includes("canary"));
  }
});

test("addresses, keys and rules that cannot be used are refused at once, and no secret is quoted", () => {
  for (const url of ["localhost:8080", "ftp://a", "", "http://user:canary@a", "http://a?key=canary", "http://a#canary"]) {
    assert.throws(
      () => new Client(url),
      (error) => error instanceof InvalidArgument && !error.message.includes("canary"),
    );
  }
  for (const apiKey of ["", " canary", "canary\n", "canärie"]) {
    assert.throws(
      () => new Client(undefined, { apiKey }),
      (error) => error instanceof InvalidArgument && !/can.r/.test(error.message),
    );
  }
  assert.throws(() => new Client(undefined, { retry: { attempts: 0 } }), InvalidArgument);
  assert.throws(() => new Client(undefined, { retry: { firstPause: -1 } }), InvalidArgument);
  for (const name of ["", "../limits", "a/b", ".a", "a?b"]) assert.throws(() => new Client().collection(name), InvalidArgument);
});

test("waiting for a service ends when it is ready, at its deadline, and at once if it failed to start", async () => {
  const slow = await scripted(problem(503, "not_ready"), hangUp, json({ status: "ready" }));
  await slow.client().waitReady({ interval: 5 });
  assert.equal(slow.requests.length, 3);
  const never = await scripted(problem(503, "not_ready"));
  const error = await rejected(never.client().waitReady({ timeout: 60, interval: 10 }), Timeout);
  assert.deepEqual([error.outcomeUnknown, error.cause instanceof Unavailable], [false, true]);
  const failed = await scripted(problem(500, "internal"));
  await rejected(failed.client().waitReady({ interval: 5 }), ServerError);
  assert.equal(failed.requests.length, 1);
  assert.equal(await never.client().ready(), false);
  await rejected(never.client().waitReady({ interval: 0 }), InvalidArgument);
  await rejected(failed.client().ready(), ServerError);
});
