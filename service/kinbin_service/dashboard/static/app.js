// The frame: which page is shown, navigation, the key, and what is said when a page fails.
import { ask, describe, hasKey, keyIsNeeded, onKeyChanged, onKeyNeeded, setKey } from "./api.js";
import { closeDialogs, dialog, field, h, replace } from "./dom.js";
import { trouble } from "./trouble.js";

const SERVER = [
  ["", "Collections"],
  ["cluster", "Cluster"],
  ["console", "Console"],
];
const COLLECTION = [
  ["query", "Query"],
  ["scores", "Scores"],
  ["recall", "Recall"],
  ["buckets", "Buckets"],
  ["map", "Map"],
  ["duplicates", "Duplicates"],
  ["items", "Items"],
  ["snapshots", "Snapshots"],
  ["console", "Console"],
];
const main = document.getElementById("main");
let leaving = new AbortController();
let first = true;
// What the server says of itself, which needs no key: gateways of a cluster tell how many nodes live.
const about = ask("GET", "/livez").catch(() => null);
let isCluster = false;

// "#/c/photos/query?id=a" as {page, name, options}; an address that is not understood is no page of the list
function place() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  const [word, name, page] = path.split("/").map(decoded);
  const options = Object.fromEntries(new URLSearchParams(query));
  if ([word, name, page].includes(null) || (word === "c" && !name)) return { page: "none", name: null, options };
  return word === "c" ? { page: page || "query", name, options } : { page: word || "collections", name: null, options };
}

function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return null;
  }
}

async function show() {
  leaving.abort();
  closeDialogs();
  leaving = new AbortController();
  const { signal } = leaving;
  const { page, name, options } = place();
  if (page === "cluster" && name === null) await about;
  if (signal.aborted) return;
  const listed = name === null ? ["collections", ...(isCluster ? ["cluster"] : []), "console"] : COLLECTION.map(([word]) => word);
  navigate(page, name);
  const heading = h("h1", {}, listed.includes(page) ? titleOf(page) : "No such page");
  document.title = `${name ? `${name}: ` : ""}${heading.textContent} – Kinbin`;
  const holder = h("div", { class: "page", "aria-busy": "true" });
  replace(main, heading, holder);
  if (!first) main.focus({ preventScroll: true });
  first = false;
  if (!listed.includes(page)) {
    const why = page === "cluster" && name === null ? h("p", {}, "This is one server. Gateways of a cluster have the page Cluster.") : "";
    replace(holder, why, h("p", {}, h("a", { href: "#/" }, "All collections")));
    holder.removeAttribute("aria-busy");
    return;
  }
  try {
    const [module, info] = await Promise.all([import(`./pages/${page}.js`), name === null ? null : describe(name, { signal })]);
    if (!signal.aborted) await module.show({ holder, heading, name, info, options, signal });
  } catch (error) {
    if (!signal.aborted) replace(holder, trouble(error));
  } finally {
    holder.removeAttribute("aria-busy");
  }
}

function titleOf(page) {
  const [, text] = [...SERVER, ...COLLECTION].find(([word]) => word === page || (page === "collections" && word === ""));
  return text;
}

const keyButton = h("button", {
  type: "button",
  onclick: async () => {
    if (hasKey()) setKey(null);
    else setKey(await typedKey(false));
    show();
  },
});
const nameKeyButton = () => replace(keyButton, hasKey() ? "Forget key" : "Key");

function navigate(page, name) {
  const link = (href, text, here) => h("a", { href, "aria-current": here ? "page" : null }, text);
  replace(
    document.getElementById("server-nav"),
    SERVER.filter(([word]) => word !== "cluster" || isCluster).map(([word, text]) => link(`#/${word}`, text, name === null && (word || "collections") === page)),
    h("a", { href: "docs" }, "API"),
    keyButton,
  );
  const below = document.getElementById("collection-nav");
  below.hidden = name === null;
  if (name === null) return;
  replace(
    below,
    h("b", {}, name),
    COLLECTION.map(([word, text]) => link(`#/c/${encodeURIComponent(name)}/${word}`, text, word === page)),
  );
}

let asking = null;
const ASKED = new Map([
  [true, "This server asks for a key. It stays in the memory of this page."],
  [false, "This server takes requests without a key. One that you give here goes with each request, and stays in the memory of this page."],
  [null, "The key goes with each request, and stays in the memory of this page."],
]);

// One dialog for however many requests wait for a key; it stays in this page's memory, and is gone with it.
function typedKey(wrong) {
  asking ||= (async () => {
    const input = h("input", { type: "password", autocomplete: "off", required: true, autofocus: true });
    const text = wrong ? "The server does not take this key." : ASKED.get(keyIsNeeded());
    const content = [h("p", {}, text), field("Key", input)];
    const given = await dialog("API key", content, { action: "Use it", stays: true, submit: () => input.value.trim() });
    asking = null;
    return given;
  })();
  return asking;
}

onKeyNeeded(typedKey);
onKeyChanged(nameKeyButton);
nameKeyButton();
// A file that is dropped beside what takes it would be opened in the place of the page.
for (const kind of ["dragover", "drop"])
  window.addEventListener(kind, (event) => {
    if (event.dataTransfer?.types.includes("Files")) event.preventDefault();
  });
window.addEventListener("hashchange", () => {
  if (location.hash.startsWith("#/") || !location.hash) show();
});
about.then((told) => {
  if (!told) return;
  document.querySelector(".brand").title = `Kinbin ${told.version}`;
  isCluster = told.nodes !== undefined;
  const { page, name } = place();
  if (isCluster) navigate(page, name);
});
show();
