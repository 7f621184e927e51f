/** What every call of the table of errors is refused with, as JSON: tests/client/test_errors_alike.py compares it with the Python client. */
import { readFileSync } from "node:fs";
import * as kinbin from "kinbin-client";
import { Client, type Collection } from "kinbin-client";
import { KEY, SERVICE } from "./support.js";

interface Case {
  readonly name: string;
  readonly call: string;
  // Of many kinds, and many of them wrong.
  readonly x: never;
  readonly options: never;
  readonly id: never;
  readonly positive: never;
  readonly many: never;
  readonly items: never;
  readonly filter: never;
  readonly ids: never;
  readonly queries: never;
  readonly collection: never;
  readonly configuration: never;
  readonly key: never;
  readonly address: never;
  readonly answer: never;
}

const ANSWERS = process.env.ANSWERS_URL ?? "";
const once = { attempts: 1 };
const client = new Client(SERVICE, { apiKey: KEY, retry: once });

/** Options of the client itself are in camelCase. */
const configuration = ({ exist_ok, ...others }: Record<string, unknown>): never =>
  (exist_ok === undefined ? others : { existOk: exist_ok, ...others }) as never;

const matrix = (rows: number[][]): kinbin.Matrix => ({ values: Float32Array.from(rows.flat()), columns: rows[0]?.length ?? 1 });

const unreachable = (): Promise<never> => Promise.reject(new TypeError("fetch failed", { cause: { code: "UND_ERR_CONNECT_TIMEOUT" } }));

const CALLS: Record<string, (given: Case, rows: () => Collection) => Promise<unknown>> = {
  query: ({ x, options }, rows) => rows().query(x, options),
  query_id: ({ id, options }, rows) => rows().queryId(id, options),
  query_examples: ({ positive, options }, rows) => rows().queryExamples(positive, [], options),
  query_batch: ({ many, options }, rows) => rows().queryBatch(many, options),
  query_each: ({ many }, rows) => rows().queryEach(many),
  query_matrix: ({ many, options }, rows) => rows().queryMatrix(matrix(many), options),
  add: ({ items }, rows) => rows().add(items),
  set_payload: ({ items }, rows) => rows().setPayload(items),
  count: ({ filter }, rows) => rows().count(filter),
  delete: ({ ids, filter }, rows) => rows().delete({ ids, filter } as never),
  get: ({ ids }, rows) => rows().get(ids),
  recall: ({ queries, options }, rows) => rows().recall(queries, options),
  info: (_, rows) => rows().info(),
  create: ({ collection, configuration: given }) => client.createCollection(collection, configuration(given)),
  stranger: () => new Client(SERVICE, { apiKey: "another-key", retry: once }).collections(),
  key: ({ key }) => new Client(SERVICE, { apiKey: key }).collections(),
  address: ({ address }) => new Client(address).collections(),
  refused: () => new Client(process.env.CLOSED_URL ?? "", { retry: once }).collections(),
  connect_timeout: () => new Client(SERVICE, { retry: once, fetch: unreachable }).collections(),
  answer: ({ answer }) => new Client(`${ANSWERS}/${answer as string}`, { retry: once, timeout: 1_000 }).collections(),
  closed: async () => {
    const closed = new Client(SERVICE);
    closed.close();
    await closed.collections();
  },
};

/** JSON has no NaN: {"$": "NaN"} is one. */
function withNumbers(_: string, value: unknown): unknown {
  return typeof value === "object" && value !== null && "$" in value ? Number(value.$) : value;
}

async function told(given: Case): Promise<unknown> {
  try {
    await CALLS[given.call]?.(given, () => client.collection((given.collection as string | undefined) ?? "rows"));
  } catch (error) {
    return [error instanceof kinbin.KinbinClientError ? error.name : String(error), (error as { code?: string | null }).code ?? null];
  }
  return ["nothing", null];
}

const classes = Object.entries(kinbin).filter(([, one]) => typeof one === "function" && one.prototype instanceof Error);
const parents = classes.map(([name, one]) => {
  const error: unknown = Object.create((one as { prototype: object }).prototype);
  return [name, classes.filter(([, other]) => error instanceof (other as unknown as typeof Error)).map(([other]) => other)];
});
const cases = JSON.parse(readFileSync(process.env.ERRORS_TABLE ?? "", "utf8"), withNumbers) as Case[];
const errors: Record<string, unknown> = {};
for (const given of cases) errors[given.name] = await told(given);
console.log(JSON.stringify({ parents: Object.fromEntries(parents) as unknown, errors }));
