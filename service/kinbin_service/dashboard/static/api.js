// Requests to this very server. A key is asked for when it is needed, and is kept in a variable of this page only.
import { readAnswer, write } from "./json.js";

let key = null;
let askForKey = async () => null;
let keyChanged = () => {};
// Whether the server asks for a key: null before it has answered a request that would need one.
let asksForKey = null;

export class Problem extends Error {
  constructor(status, told) {
    super(told.detail || told.title || `status ${status}`);
    this.status = status;
    this.code = told.code || "";
    this.errors = told.errors || [];
  }

  // A route that this server does not have (yet): 404 of the router, 405 of another method's route, or 501.
  get missingRoute() {
    return this.status === 501 || this.status === 405 || (this.status === 404 && this.code === "not_found");
  }
}

export function onKeyNeeded(ask) {
  askForKey = ask;
}
export function onKeyChanged(tell) {
  keyChanged = tell;
}
export function setKey(given) {
  key = given || null;
  keyChanged();
}
export const hasKey = () => key !== null;
export const keyIsNeeded = () => asksForKey;

// Relative to the page: a proxy may have put the server below a path of its own.
export const address = (path) => new URL(`./${path.replace(/^\//, "")}`, document.baseURI).href;
export const server = () => new URL(".", document.baseURI).href.replace(/\/$/, "");
export const collectionPath = (name, word = "") => `/v1/collections/${encodeURIComponent(name)}${word && `/${word}`}`;

// {content, received, milliseconds}: the JSON of an answer, its text, and the time to its last byte. Problem for any other status.
export async function timed(method, path, body, { signal, text } = {}) {
  for (;;) {
    const headers = key === null ? {} : { authorization: `Bearer ${key}` };
    if (body !== undefined) headers["content-type"] = "application/json";
    const began = performance.now();
    const response = await fetch(address(path), {
      method,
      headers,
      signal,
      cache: "no-store",
      credentials: "omit",
      redirect: "error",
      body: body === undefined ? undefined : typeof body === "string" ? body : write(body),
    });
    const received = await response.text();
    const milliseconds = performance.now() - began;
    if (response.status === 401) asksForKey = true;
    else if (key === null && response.ok && path.startsWith("/v1/")) asksForKey = false;
    if (response.status === 401) {
      const given = await askForKey(key !== null);
      if (given !== null) {
        setKey(given);
        continue;
      }
    }
    const content = parsed(received);
    if (!response.ok && !text) throw new Problem(response.status, content || {});
    return { content: text ? received : content, received, milliseconds, status: response.status };
  }
}

export async function ask(method, path, body, options) {
  return (await timed(method, path, body, options)).content;
}

function parsed(text) {
  try {
    return readAnswer(text);
  } catch {
    return null;
  }
}

const known = new Map();

// The description of a collection, asked for anew each time unless `kept`.
export async function describe(name, { signal, kept = false } = {}) {
  if (!kept || !known.has(name)) known.set(name, await ask("GET", collectionPath(name), undefined, { signal }));
  return known.get(name);
}

// Whether the items of a collection are hashed: others, as strings, have no bands, and are found by pools (`stats.pools`).
export const hashed = (info) => info.stats.pools === undefined;
export const unhashed = ({ items, kernel }) =>
  `${items[0].toUpperCase()}${items.slice(1)} under ${kernel} have no bands: no hash tells how near two are.`;

// At most so many at once, in order.
export async function each(values, run, most = 4) {
  const waiting = values.entries();
  const worker = async () => {
    for (const [position, value] of waiting) await run(value, position);
  };
  await Promise.all(Array.from({ length: Math.min(most, values.length) }, worker));
}
