// Pairs or clusters of items above a score, straight from the buckets.
import { ask, collectionPath } from "../api.js";
import { figure, summary } from "../answers.js";
import { trouble } from "../trouble.js";
import { field, h, integer, replace, select } from "../dom.js";
import { snippets } from "../snippets.js";

const SHOWN = 30;

export async function show({ holder, name, signal }) {
  const least = h("input", { type: "number", min: 0, max: 1, step: 0.01, value: 0.95 });
  const as = select(["clusters", "pairs"], "clusters");
  const results = h("div", { "aria-live": "polite" });
  const button = h("button", { class: "primary" }, "Find");
  const run = async () => {
    const body = { min_score: Number(least.value), as: as.value, limit: 1000 };
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
      button,
    ),
    results,
  );
}

async function found(made, page) {
  const all = made.clusters || made.pairs || [];
  const lists = all
    .slice(0, SHOWN)
    .map((one) =>
      one.ids
        ? { ids: one.ids, told: `least score ${one.least?.toFixed(4)}; keep ${one.keep}` }
        : { ids: [one.a, one.b], told: `score ${one.score.toFixed(4)}` },
    );
  const wanted = [...new Set(lists.flatMap((one) => one.ids.slice(0, 8)))];
  const { items } = wanted.length
    ? await ask("POST", collectionPath(page.name, "get"), { ids: wanted }, { signal: page.signal })
    : { items: [] };
  const stored = new Map(items.map((item) => [item.id, item]));
  const cards = await Promise.all(
    lists.map(async ({ ids, told }) =>
      h(
        "li",
        {},
        h("p", {}, `${integer(ids.length)} items, ${told}`),
        h(
          "ul",
          { class: "cards" },
          await Promise.all(
            ids
              .slice(0, 8)
              .filter((id) => stored.has(id))
              .map(async (id) =>
                h(
                  "li",
                  { class: "card" },
                  await figure(stored.get(id), "auto"),
                  h("div", { class: "told" }, h("b", { class: "id" }, id), h("small", {}, summary(stored.get(id).payload))),
                ),
              ),
          ),
        ),
      ),
    ),
  );
  const missed =
    made.miss_probability === null || made.miss_probability === undefined
      ? ""
      : ` A pair is missed with probability at most ${Math.ceil(made.miss_probability * 10000) / 10000}.`;
  return [
    h(
      "p",
      {},
      h("b", {}, `${integer(all.length)} ${made.clusters ? "clusters" : "pairs"}.`),
      `${missed} ${integer(made.compared)} pairs were compared.`,
      made.complete === false ? " The answer is cut short." : "",
      all.length > SHOWN ? ` The first ${SHOWN} are shown.` : "",
    ),
    h("ol", { class: "groups" }, cards),
  ];
}
