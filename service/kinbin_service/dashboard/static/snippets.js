// The same request as curl and as Python, for the console and beside every form. Keys stay where they are: in the environment.
import { hasKey, server } from "./api.js";
import { h, say } from "./dom.js";
import { source, write } from "./json.js";

const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;

export function curl(method, path, body) {
  const lines = [
    `curl -s ${method === "GET" || (method === "POST" && body !== undefined) ? "" : `-X ${method} `}${quoted(server() + path)}`,
  ];
  if (hasKey()) lines.push(`-H "Authorization: Bearer $KINBIN_API_KEY"`);
  if (body !== undefined) lines.push("-H 'content-type: application/json'", `-d ${quoted(write(body))}`);
  return lines.join(" \\\n  ");
}

// A JSON value as Python writes it.
export function literal(value) {
  if (value === null || value === undefined) return "None";
  if (value instanceof Written) return value.text;
  if (value === true) return "True";
  if (value === false) return "False";
  if (Array.isArray(value)) return `[${value.map((one, at) => source(value, at) ?? literal(one)).join(", ")}]`;
  if (typeof value === "object")
    return `{${Object.entries(value)
      .map(([name, one]) => `${JSON.stringify(name)}: ${source(value, name) ?? literal(one)}`)
      .join(", ")}}`;
  return JSON.stringify(value);
}

const call = (name, first, rest = {}) => {
  const named = Object.entries(rest)
    .filter(([, value]) => value !== undefined)
    .map(([key, value]) => `${key}=${literal(value)}`);
  return `${name}(${[...first.map(literal), ...named].join(", ")})`;
};

// Text that is Python already.
class Written {
  constructor(text) {
    this.text = text;
  }
}

// A vector as the client takes it: features are whole numbers there, tokens a mapping of their own.
function ofVector(vector) {
  if (vector.tokens) return vector.tokens;
  if (!vector.indices) return vector;
  return new Written(`{${vector.indices.map((feature, at) => `${source(vector.indices, at) ?? feature}: ${literal(vector.values[at])}`).join(", ")}}`);
}

function ofExplain({ vector, string, series, points, image, ...rest }) {
  if (image !== undefined || rest.feature_names !== undefined) return null;
  const given = vector === undefined ? (string ?? series ?? points) : ofVector(vector);
  return call("collection.explain", given === undefined ? [] : [given], rest);
}

// What the Python client calls a request by; null: it is sent by httpx as it is.
function ofQuery(body) {
  const { vector, id, string, queries, series, points, positive, negative, image, vectors, ...options } = body;
  if (image !== undefined || vectors !== undefined || options.cursor !== undefined || options.group_by !== undefined) return null;
  if (id !== undefined) return options.fields || options.weights || options.combine ? null : call("collection.query_id", [id], options);
  if (queries !== undefined) return queries.every(Array.isArray) ? call("collection.query_batch", [queries], options) : null;
  if (positive !== undefined) return call("collection.query_examples", [positive, negative || []], options);
  return call("collection.query", [vector === undefined ? (string ?? series ?? points) : ofVector(vector)], options);
}

const CALLS = {
  query: ofQuery,
  explain: ofExplain,
  get: ({ ids, ...rest }) => call("collection.get", [ids], rest),
  scroll: (body) => call("collection.scroll", [], body),
  count: (body) => call("collection.count", [], body),
  delete: (body) => call("collection.delete", [], body),
  facets: ({ field, ...rest }) => call("collection.facets", [field], rest),
  payload: ({ items, mode }) =>
    call(mode === "merge" ? "collection.patch_payload" : "collection.set_payload", [
      items.map((one) => one.id),
      items.map((one) => one.payload),
    ]),
};

export function python(method, path, body) {
  const [, , , name, word, ...more] = path.split("?")[0].split("/");
  const made = path.startsWith("/v1/collections/") && method === "POST" && !more.length && body && CALLS[word]?.(body);
  if (!made) return byHttpx(method, path, body);
  const key = hasKey() ? ', api_key=os.environ["KINBIN_API_KEY"]' : "";
  return [
    ...(hasKey() ? ["import os", ""] : []),
    "from kinbin_client import Client",
    "",
    `with Client(${JSON.stringify(server())}${key}) as client:`,
    `    collection = client.collection(${JSON.stringify(decodeURIComponent(name))})`,
    `    print(${made})`,
  ].join("\n");
}

function byHttpx(method, path, body) {
  const headers = hasKey() ? ', headers={"Authorization": f"Bearer {os.environ[\'KINBIN_API_KEY\']}"}' : "";
  const content = body === undefined ? "" : `, json=${literal(body)}`;
  return [
    ...(hasKey() ? ["import os", ""] : []),
    "import httpx",
    "",
    `print(httpx.request(${JSON.stringify(method)}, ${JSON.stringify(server() + path)}${content}${headers}, timeout=60).json())`,
  ].join("\n");
}

// Both, to open and to copy.
export function snippets(method, path, body, open = false) {
  const one = (title, text) =>
    h(
      "div",
      { class: "snippet" },
      h("div", { class: "row" }, h("b", {}, title), h("button", { type: "button", onclick: () => copy(text) }, `Copy ${title}`)),
      h("pre", { tabindex: 0, role: "region", "aria-label": `${title} of this request` }, text),
    );
  return h(
    "details",
    { class: "snippets", open },
    h("summary", {}, "This request as curl and Python"),
    one("curl", curl(method, path, body)),
    one("Python", python(method, path, body)),
  );
}

async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    say("Copied.");
  } catch {
    say("The browser does not let pages of plain HTTP copy: select the text.");
  }
}
