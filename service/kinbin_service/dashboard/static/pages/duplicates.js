// Pairs or clusters of items above a score, straight from the buckets.
import { ask, collectionPath } from "../api.js";
import { figure, summary } from "../answers.js";
import { trouble } from "../trouble.js";
import { append, field, h, integer, replace, select } from "../dom.js";
import { snippets } from "../snippets.js";

const SHOWN = 30;
const MEMBERS = 8;
const MOST = 500;

export async function show({ holder, name, info, signal }) {
  // What scores there are is the kernel's: the server says which.
  const least = h("input", { type: "number", step: 0.01, value: 0.95, required: true });
  const as = select(["clusters", "pairs"], "clusters");
  const of = info.fields ? select(Object.keys(info.fields)) : null;
  const results = h("div", { "aria-live": "polite" });
  const button = h("button", { class: "primary" }, "Find");
  const run = async () => {
    const body = { min_score: Number(least.value), as: as.value, limit: 1000, ...(of ? { field: of.value } : {}) };
    const path = collectionPath(name, "duplicates");
    button.disabled = true;
    replace(results, h("p", {}, "Comparing what shares buckets …"));
    try {
      const made = await ask("POST", path, body, { signal });
      replace(results, ...(await found(made, { name, signal })), snippets("POST", path, body));
    } catch (error) {
      if (!signal.aborted) replace(results, trouble(error), snippets("POST", path, body));
    } finally {
      button.disabled = false;
    }
  };
  replace(
    holder,
    h(
      "form",
      {
        class: "panel row fields",
        onsubmit: (event) => {
          event.preventDefault();
          run();
        },
      },
      field("Least score", least),
      field("As", as),
      of && field("Vector", of),
      button,
    ),
    results,
  );
}

// `list` with the first so many of `all`, then how many are hidden, and a button that doubles what is shown, by at most MOST.
async function growing(list, all, first, what, draw) {
  const hidden = h("span", { class: "hint" });
  const button = h("button", { type: "button" }, "More");
  const below = h("div", { class: "row" }, hidden, button);
  let shown = 0;
  const more = async () => {
    button.disabled = true;
    try {
      const next = all.slice(shown, shown ? shown + Math.min(shown, MOST) : first);
      append(list, await draw(next));
      shown += next.length;
      hidden.textContent = `${integer(all.length - shown)} of ${integer(all.length)} ${what} are hidden.`;
      if (shown === all.length) below.remove();
    } finally {
      button.disabled = false;
    }
  };
  button.addEventListener("click", () =>
    more().catch((error) => {
      hidden.textContent = error.message;
    }),
  );
  await more();
  return [list, shown < all.length ? below : null];
}

async function storedItems(ids, { name, signal }) {
  const { items } = ids.length ? await ask("POST", collectionPath(name, "get"), { ids }, { signal }) : { items: [] };
  return new Map(items.map((item) => [item.id, item]));
}

async function card(item) {
  return h(
    "li",
    { class: "card" },
    await figure(item, "auto"),
    h("div", { class: "told" }, h("b", { class: "id" }, item.id), h("small", {}, summary(item, "auto"))),
  );
}

// The cards of some pairs or clusters; one request for what is seen of all of them at first.
async function groupsOf(some, page) {
  const lists = some.map((one) =>
    one.ids
      ? { ids: one.ids, told: `least score ${one.least?.toFixed(4)}; keep ${one.keep}` }
      : { ids: [one.a, one.b], told: `score ${one.score.toFixed(4)}` },
  );
  const first = await storedItems([...new Set(lists.flatMap(({ ids }) => ids.slice(0, MEMBERS)))], page);
  const cards = async (ids) => {
    const stored = ids.some((id) => first.has(id)) ? first : await storedItems(ids, page);
    return Promise.all(ids.filter((id) => stored.has(id)).map((id) => card(stored.get(id))));
  };
  return Promise.all(
    lists.map(async ({ ids, told }) =>
      h(
        "li",
        {},
        h("p", {}, `${integer(ids.length)} items, ${told}`),
        await growing(h("ul", { class: "cards" }), ids, MEMBERS, "items", cards),
      ),
    ),
  );
}

async function found(made, page) {
  const all = made.clusters || made.pairs || [];
  const what = made.clusters ? "clusters" : "pairs";
  const missed =
    made.miss_probability === null || made.miss_probability === undefined
      ? ""
      : ` A pair is missed with probability at most ${Math.ceil(made.miss_probability * 10000) / 10000}.`;
  return [
    h(
      "p",
      {},
      h("b", {}, `${integer(all.length)} ${what}.`),
      `${missed} ${integer(made.compared)} pairs were compared.`,
      made.complete === false ? " The answer is cut short." : "",
    ),
    ...(await growing(h("ol", { class: "groups" }), all, SHOWN, what, (some) => groupsOf(some, page))),
  ];
}
