// Queries by id, text, picture or JSON; answers with scores and what is certain of them; and why an item scored so.
import { ask, collectionPath, hashed, Problem, timed } from "../api.js";
import { figure, summary, VIEWS } from "../answers.js";
import { trouble } from "../trouble.js";
import { said, waysOf } from "../asking.js";
import { field, h, integer, replace, select, sentence, short } from "../dom.js";
import { firstId } from "../examples.js";
import { read } from "../json.js";
import { snippets } from "../snippets.js";

const MODES = ["auto", "bands", "links", "exact"];
const kept = new Map();

export async function show({ holder, name, info, options, signal }) {
  const page = { name, info, signal, kept: kept.get(name) || {} };
  kept.set(name, page.kept);
  page.answers = h("section", { "aria-label": "Answer", "aria-live": "polite" });
  page.first = options.id || (await firstId(page));
  replace(holder, formOf(page), page.answers);
  takeDrops(page);
  if (page.first) await page.run({ id: page.first });
  else replace(page.answers, h("p", {}, "The collection is empty."));
}

function formOf(page) {
  const { info } = page;
  const ways = waysOf(page);
  const k = h("input", { type: "number", min: 1, max: 1000, value: page.kept.k || 12 });
  const recall = h("input", { type: "number", min: 0.01, max: 1, step: 0.01, value: page.kept.recall || 0.9 });
  const mode = select(MODES, page.kept.mode || "auto");
  const certify = h("input", { type: "checkbox", checked: page.kept.certify === true });
  const filter = h("input", { type: "text", placeholder: '{"year": {"$gte": 2020}}', value: page.kept.filter || "", spellcheck: "false" });
  const view = select(VIEWS, page.kept.view || "auto");
  view.addEventListener("change", () => {
    page.kept.view = view.value;
    if (page.last) answer(page, page.last);
  });
  const panels = h("div", {});
  page.ways = ways;
  page.choose = (way) => {
    page.way = way;
    way.radio.checked = true;
    replace(panels, way.controls);
  };
  const radios = ways.map((way) => {
    way.radio = h("input", { type: "radio", name: "way", onchange: () => page.choose(way) });
    return h("label", { class: "way" }, way.radio, way.title);
  });
  page.choose(ways[0]);
  page.search = async () => {
    const asked = (page.asked = {});
    try {
      const content = await page.way.content();
      if (page.asked === asked) await page.run(content, page.way.whole);
    } catch (error) {
      if (!page.signal.aborted && page.asked === asked) replace(page.answers, error instanceof Problem ? trouble(error) : said(error));
    }
  };
  page.run = async (content, whole = false) => {
    // An answer that comes after somebody asked for something else is not shown.
    const asked = (page.asked = {});
    Object.assign(page.kept, { k: k.value, recall: recall.value, mode: mode.value, filter: filter.value, certify: certify.checked });
    try {
      const body = { ...content };
      if (!whole) {
        body.k = Number(k.value);
        body.target_recall = Number(recall.value);
        if (mode.value !== "auto") body.mode = mode.value;
        if (certify.checked) body.certify = true;
        if (filter.value.trim()) body.filter = read(filter.value);
      }
      body.include ??= info.items === "images" ? ["payload"] : ["payload", "vector"];
      const made = await send(page, body);
      if (page.asked === asked) await answer(page, (page.last = made));
    } catch (error) {
      if (!page.signal.aborted && page.asked === asked) replace(page.answers, error instanceof SyntaxError ? said(error) : trouble(error));
    }
  };
  return h(
    "form",
    {
      class: "panel",
      onsubmit: (event) => {
        event.preventDefault();
        page.search();
      },
    },
    h("fieldset", {}, h("legend", {}, "Near to what"), h("div", { class: "row" }, radios)),
    panels,
    h(
      "div",
      { class: "row fields" },
      field("k", k),
      field("Target recall", recall),
      field("Mode", mode),
      field("Filter (JSON)", filter),
      field("Show as", view),
    ),
    hashed(info) ? h("label", { class: "way" }, certify, "Certify: a walk asks the bands for a recall bound, too") : null,
    h("button", { class: "primary" }, "Search"),
  );
}

// A picture that is dropped anywhere is asked for. That the browser does not open it instead is app.js's.
function takeDrops(page) {
  const way = page.ways.find((one) => one.take);
  const mark = (over) => way?.controls.classList.toggle("over", over);
  const { signal } = page;
  window.addEventListener("dragover", (event) => mark(event.dataTransfer.types.includes("Files")), { signal });
  window.addEventListener("dragleave", () => mark(false), { signal });
  window.addEventListener(
    "drop",
    ({ dataTransfer: { files } }) => {
      mark(false);
      if (!files.length) return;
      if (!way) {
        replace(page.answers, said(new Error("This collection cannot be asked by a picture.")));
        return;
      }
      way.take(files);
      page.choose(way);
      page.search();
    },
    { signal },
  );
}

async function send(page, body) {
  const path = collectionPath(page.name, "query");
  const { content, milliseconds } = await timed("POST", path, body, { signal: page.signal });
  return { path, body, content, milliseconds, asked: await itemOf(page, body) };
}

// What was asked for, as an item to be drawn; null: several things, or none that can be.
async function itemOf({ name, signal, info }, body) {
  const id = "the query";
  // Browsers look at the bytes of a picture, whatever the address calls them.
  if (typeof body.image === "string") return { id, payload: { image: `data:image/png;base64,${body.image}` } };
  if (body.id === undefined) return body.vector || body.string || body.series ? { ...body, id } : null;
  const include = info.items === "images" ? ["payload"] : ["payload", "vector"];
  return (await ask("POST", collectionPath(name, "get"), { ids: [body.id], include }, { signal })).items[0];
}

async function answer(page, { path, body, content, milliseconds, asked }) {
  const answers = content.answers || [content];
  const shown = await Promise.all(answers.slice(0, 20).map((one, number) => answered(page, one, body, answers.length > 1 ? number : null)));
  replace(
    page.answers,
    h(
      "p",
      { class: "took", "data-milliseconds": milliseconds.toFixed(1) },
      `${short(content.took_ms)} ms in the server, ${milliseconds.toFixed(0)} ms until it was here.`,
    ),
    asked && !asked.vector?.tokens
      ? h("div", { class: "asked" }, await figure(asked, page.kept.view || "auto"), h("p", {}, "Asked for: ", h("b", {}, asked.id)))
      : null,
    shown,
    snippets("POST", path, body),
  );
}

async function answered(page, one, body, number) {
  const view = page.kept.view || "auto";
  const why = h("div", { class: "why" });
  const cards = await Promise.all(
    one.results.map(async (hit) =>
      h(
        "li",
        { class: "card" },
        await figure(hit, view),
        h(
          "div",
          { class: "told" },
          h("b", { class: "id" }, hit.id),
          h(
            "span",
            {},
            hit.distance === undefined || hit.distance === null ? `score ${hit.score?.toFixed(4)}` : `distance ${short(hit.distance)}`,
          ),
          h("small", {}, summary(hit, view)),
        ),
        h(
          "div",
          { class: "row" },
          number === null && canExplain(body)
            ? h("button", { type: "button", "aria-label": `Why? ${hit.id}`, onclick: (event) => whyOf(why, page, body, hit, event.currentTarget) }, "Why?")
            : null,
          h("button", { type: "button", "aria-label": `From here: ${hit.id}`, onclick: () => page.run({ id: hit.id }) }, "From here"),
        ),
      ),
    ),
  );
  return h(
    "div",
    {},
    number === null ? null : h("h2", {}, `Query ${number + 1}`),
    certificate(one),
    unknownTokens(one, body),
    why,
    cards.length ? h("ol", { class: "cards" }, cards) : h("p", {}, "No item."),
  );
}

// Charts are loaded when somebody asks why.
async function whyOf(holder, page, body, hit, opener) {
  const { explain } = await import("../explain.js");
  await explain(holder, page, body, hit, opener);
}

const canExplain = (body) => ["id", "vector", "string", "series", "points", "image", "vectors"].some((name) => body[name] !== undefined);

// Tokens that no item has make a sound answer, as everything is equally far: what it means has to be said.
function unknownTokens({ results }, { vector, filter, min_score: least }) {
  const nothing = results.length ? results.every((hit) => hit.score === 0) : !filter && least === undefined;
  if (!vector?.tokens || !nothing) return null;
  return h(
    "p",
    { class: "unknown" },
    h("b", {}, "Nothing scores above 0: "),
    "no item that was looked at has a token of the query. Tokens have to be cut as those of the collection were, ",
    "in single words or in shingles of the same length.",
  );
}

function certificate(one) {
  const bound = one.recall_lower_bound;
  return h(
    "div",
    { class: "certificate" },
    bound === null
      ? h("p", {}, h("b", {}, "No recall bound: "), one.no_bound)
      : h(
          "p",
          {},
          h("b", {}, `Recall bound ${bound.toFixed(4)}. `),
          bound === 1 ? "All of the nearest are here." : "Each of the true nearest is found with at least this probability.",
        ),
    h(
      "p",
      { class: "hint" },
      `Mode ${one.mode}: ${integer(one.candidates)} candidates, ${integer(one.verified)} scored exactly. ${sentence(one.steps.join("; "))}`,
      one.truncated.length ? ` Cut short by ${one.truncated.join(", ")}.` : "",
      one.out_of_distribution ? " The query is unlike the stored items." : "",
    ),
  );
}
