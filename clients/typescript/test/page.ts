/** What a web page does with the client; test/browser.test.ts opens it in Chromium, and is told how it went. */
import { Client, ConnectionLost, InvalidInput, NotFound, Timeout, UnexpectedResponse } from "kinbin-client";

/** One check of the page, and what went wrong. */
export interface Told {
  check: string;
  error: string | null;
}

function equal(found: unknown, wanted: unknown): void {
  const [left, right] = [found, wanted].map((value) =>
    JSON.stringify(value, (_, one: unknown) => (typeof one === "bigint" ? `${one}n` : one)),
  );
  if (left !== right) throw new Error(`${left} is not ${right}`);
}

async function failsWith(kind: abstract new (...given: never[]) => Error, promise: Promise<unknown>): Promise<void> {
  const error = await promise.then(
    () => null,
    (reason: unknown) => reason,
  );
  if (!(error instanceof kind)) throw new Error(`${String(error)} is no ${kind.name}`);
}

const apiKey = new URLSearchParams(location.search).get("key") ?? "";
const client = new Client(location.origin, { apiKey, retry: { attempts: 1 } });

const CHECKS: Record<string, () => Promise<void>> = {
  "items are added and found": async () => {
    await client.waitReady();
    if ((await client.collections()).includes("ts-page")) await client.dropCollection("ts-page");
    const rows = await client.createCollection<{ n: number }>("ts-page", { dim: 3 });
    await rows.add(
      Array.from({ length: 25 }, (_, n) => ({ id: `i${n}`, vector: Float32Array.of(n + 1, 1, 0), payload: { n } })),
      { maxItems: 10 },
    );
    const answer = await rows.query([3, 1, 0], { k: 1, include: ["payload"] });
    equal([answer.results[0]?.id, answer.results[0]?.payload?.n, answer.results[0]?.score], ["i2", 2, 1]);
  },
  "iterators read to the end": async () => {
    const rows = client.collection("ts-page");
    const lines: string[] = [];
    for await (const line of rows.exportLines({ limit: 10 })) lines.push(line);
    equal(lines.length, 25);
    const receipts: (boolean | undefined)[] = [];
    for await (const receipt of rows.addLines(new Blob(lines))) receipts.push(receipt.done);
    equal(receipts.at(-1), true);
    let answers = 0;
    for await (const answer of rows.queryStream(
      [
        [1, 1, 0],
        [2, 1, 0],
      ],
      { maxItems: 1 },
    ))
      answers += answer.results.length;
    equal(answers, 20);
  },
  "tokens keep their features": async () => {
    if ((await client.collections()).includes("ts-page-words")) await client.dropCollection("ts-page-words");
    const words = await client.createCollection("ts-page-words", {});
    await words.add([{ id: "a", vector: { tokens: { red: 3, apple: 1 } } }]);
    const vector = (await words.get(["a"])).items[0]?.vector ?? [];
    equal((await words.query(vector)).results[0]?.score, 1);
  },
  "a snapshot is downloaded and uploaded": async () => {
    const made = await client.snapshots.create("ts-page");
    const parts: Uint8Array<ArrayBuffer>[] = [];
    for await (const part of client.snapshots.download("ts-page", made.id)) parts.push(part);
    if ((await client.collections()).includes("ts-page-2")) await client.dropCollection("ts-page-2");
    equal(await (await client.restore(new Blob(parts), "ts-page-2")).count(), 25);
    await client.snapshots.delete("ts-page", made.id);
  },
  "errors are of their classes": async () => {
    await failsWith(NotFound, client.collection("ts-nowhere").count());
    await failsWith(InvalidInput, client.collection("ts-page").query([0, 0, 0]));
    await failsWith(ConnectionLost, new Client(`${location.origin}/hang-up`, { retry: { attempts: 1 } }).health());
    await failsWith(Timeout, new Client(`${location.origin}/silence`, { timeout: 50, retry: { attempts: 1 } }).health());
    await failsWith(UnexpectedResponse, new Client(`${location.origin}/redirect`).health());
  },
  "a signal ends a call": async () => {
    const reason = new RangeError("enough");
    const controller = new AbortController();
    setTimeout(() => controller.abort(reason), 20);
    await failsWith(RangeError, new Client(`${location.origin}/silence`).health({ signal: controller.signal }));
  },
};

const told: Told[] = [];
for (const [check, run] of Object.entries(CHECKS)) {
  told.push({
    check,
    error: await run().then(
      () => null,
      (error: unknown) => String(error),
    ),
  });
}
await fetch("/told", { method: "POST", body: JSON.stringify(told) });
