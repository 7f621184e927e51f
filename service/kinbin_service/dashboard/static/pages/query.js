// Queries by id, text, picture or JSON; answers with scores and what is certain of them; and why an item scored so.
import { ask, collectionPath, timed } from "../api.js";
import { figure, summary, VIEWS } from "../answers.js";
import { trouble } from "../trouble.js";
import { field, h, integer, replace, say, select, short } from "../dom.js";
import { exampleQuery, firstId, someId } from "../examples.js";
import { read } from "../json.js";
import { asQuery, readings } from "../pictures.js";
import { snippets } from "../snippets.js";

const MODES = ["auto", "bands", "links", "exact"];
const kept = new Map();

export async function show({ holder, name, info, options, signal }) {
  const page = { name, info, signal, kept: kept.get(name) || {} };
  kept.set(name, page.kept);
  page.answers = h("section", { "aria-label": "Answer", "aria-live": "polite" });
  page.first = options.id || (await firstId(page));
  replace(holder, formOf(page), page.answers);
  if (page.first) await page.run({ id: page.first });
  else replace(page.answers, h("p", {}, "The collection is empty."));
}

function formOf(page) {
  const { info } = page;
  const ways = waysOf(page);
  const k = h("input", { type: "number", min: 1, max: 1000, value: page.kept.k || 12 });
  const recall = h("input", { type: "number", min: 0.01, max: 1, step: 0.01, value: page.kept.recall || 0.9 });
  const mode = select(MODES, page.kept.mode || "auto");
  const filter = h("input", { type: "text", placeholder: '{"year": {"$gte": 2020}}', value: page.kept.filter || "", spellcheck: "false" });
  const view = select(VIEWS, page.kept.view || "auto");
  view.addEventListener("change", () => {
    page.kept.view = view.value;
    if (page.last) answer(page, page.last);
  });
  const panels = h("div", {});
  const choose = (way) => {
    page.way = way;
    replace(panels, way.controls);
  };
  const radios = ways.map((way, number) =>
    h("label", { class: "way" }, h("input", { type: "radio", name: "way", checked: number === 0, onchange: () => choose(way) }), way.title),
  );
  choose(ways[0]);
  page.run = async (content, whole = false) => {
    // An answer that comes after somebody asked for something else is not shown.
    const asked = (page.asked = {});
    Object.assign(page.kept, { k: k.value, recall: recall.value, mode: mode.value, filter: filter.value });
    try {
      const body = { ...content };
      if (!whole) {
        body.k = Number(k.value);
        body.target_recall = Number(recall.value);
        if (mode.value !== "auto") body.mode = mode.value;
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
      onsubmit: async (event) => {
        event.preventDefault();
        try {
          await page.run(await page.way.content(), page.way.whole);
        } catch (error) {
          replace(page.answers, said(error));
        }
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
    h("button", { class: "primary" }, "Search"),
  );
}

const said = (error) =>
  h("p", { class: "trouble", role: "alert" }, error instanceof SyntaxError ? `This is no JSON: ${error.message}` : error.message);

// The ways to ask that this collection has; each has controls, and makes the first part of a body.
function waysOf(page) {
  const { info } = page;
  const id = h("input", {
    type: "text",
    value: page.first,
    required: true,
    spellcheck: "false",
    autocomplete: "off",
  });
  const any = h(
    "button",
    {
      type: "button",
      onclick: async () => {
        id.value = await someId(page, 1000);
        if (id.value) await page.run({ id: id.value });
        else say("The collection has no items.");
      },
    },
    "Any item",
  );
  const ways = [
    {
      title: "a stored item",
      controls: h("div", { class: "row fields" }, field("Id", id), any),
      content: () => ({ id: id.value }),
    },
  ];
  if (info.items === "strings" || (info.items === "vectors" && !info.dim && !info.fields)) {
    const text = h("textarea", { rows: 3, required: true });
    const hint = info.items === "strings" ? "Compared as it is." : "Its words, in lower case, each counted as often as it stands there.";
    ways.push({ title: "a text", controls: field("Text", text, hint), content: () => textQuery(info, text.value) });
  }
  const known = readings(info);
  if (known.length) ways.push(pictureWay(page, known));
  ways.push(jsonWay(page));
  return ways;
}

function textQuery(info, text) {
  if (info.items === "strings") return { string: text };
  const tokens = text
    .normalize("NFC")
    .toLowerCase()
    .match(/[\p{L}\p{N}_]+/gu);
  if (!tokens) throw new Error("There are no words in the text.");
  const counts = {};
  for (const token of tokens) counts[token] = (Object.hasOwn(counts, token) ? counts[token] : 0) + 1;
  return { vector: { tokens: counts } };
}

function pictureWay(page, known) {
  const reading = select(known, page.kept.reading || known[0][0]);
  const file = h("input", { type: "file", accept: "image/png,image/jpeg,image/webp" });
  let dropped = null;
  const content = async () => {
    const given = dropped || file.files[0];
    if (!given) throw new Error("Choose a picture, or drop one onto the page.");
    page.kept.reading = reading.value;
    return asQuery(given, reading.value);
  };
  const zone = h("div", { class: "drop" }, field("Picture: drop one here, or choose a file", file), field("Read as", reading));
  file.addEventListener("change", () => {
    dropped = null;
    if (file.files[0])
      content().then(
        (made) => page.run(made),
        (error) => replace(page.answers, said(error)),
      );
  });
  for (const kind of ["dragenter", "dragover"])
    zone.addEventListener(kind, (event) => {
      event.preventDefault();
      zone.classList.add("over");
    });
  zone.addEventListener("dragleave", () => zone.classList.remove("over"));
  zone.addEventListener("drop", (event) => {
    event.preventDefault();
    zone.classList.remove("over");
    [dropped] = event.dataTransfer.files;
    content().then(
      (made) => page.run(made),
      (error) => replace(page.answers, said(error)),
    );
  });
  return { title: "a picture", controls: zone, content };
}

function jsonWay(page) {
  const example = exampleQuery(page.info, page.first);
  const text = h("textarea", { rows: 7, spellcheck: "false", class: "code", value: page.kept.json || JSON.stringify(example, null, 1) });
  return {
    title: "JSON",
    whole: true,
    controls: field("Body of the query", text, "All of it: the options below are left out."),
    content: () => {
      page.kept.json = text.value;
      return read(text.value);
    },
  };
}

async function send(page, body) {
  const path = collectionPath(page.name, "query");
  const { content, milliseconds } = await timed("POST", path, body, { signal: page.signal });
  return { path, body, content, milliseconds, asked: await itemOf(page, body) };
}

// What was asked for, as an item to be drawn; null: several things, or none that can be.
async function itemOf({ name, signal, info }, body) {
  if (body.id === undefined) return body.vector || body.string || body.series ? { ...body, id: "the query" } : null;
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
          h("small", {}, summary(hit.payload)),
        ),
        h(
          "div",
          { class: "row" },
          number === null && canExplain(body)
            ? h("button", { type: "button", "aria-label": `Why? ${hit.id}`, onclick: () => whyOf(why, page, body, hit) }, "Why?")
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
    why,
    cards.length ? h("ol", { class: "cards" }, cards) : h("p", {}, "No item."),
  );
}

// Charts are loaded when somebody asks why.
async function whyOf(holder, page, body, hit) {
  const { explain } = await import("../explain.js");
  await explain(holder, page, body, hit);
}

const canExplain = (body) => ["id", "vector", "string", "series", "points", "image", "vectors"].some((name) => body[name] !== undefined);

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
      `Mode ${one.mode}: ${integer(one.candidates)} candidates, ${integer(one.verified)} scored exactly. ${one.steps.join("; ")}.`,
      one.truncated.length ? ` Cut short by ${one.truncated.join(", ")}.` : "",
      one.out_of_distribution ? " The query is unlike the stored items." : "",
    ),
  );
}
