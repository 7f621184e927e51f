// The ways to ask: a stored item, a text, a picture, JSON. Each has controls, and makes the first part of a body.
import { ask, collectionPath } from "./api.js";
import { field, h, replace, say, select, short } from "./dom.js";
import { exampleQuery, someId } from "./examples.js";
import { read } from "./json.js";
import { asQuery, FITS, readings } from "./pictures.js";

const reason = (error) => (error instanceof SyntaxError ? `This is no JSON: ${error.message}` : error.message);
export const said = (error) => h("p", { class: "trouble", role: "alert" }, reason(error));
// The same while somebody is typing, which would be interrupted at every key.
export const saidQuietly = (error) => h("p", { class: "trouble" }, reason(error));

// Stored tokens are hashes: they do not tell how the texts were cut.
const WORDS =
  "Its single words, in lower case, each counted as often as it stands there. A collection of shingles (runs of words) is asked with JSON: " +
  '{"vector": {"tokens": {"the harbour": 1}}}.';

// The ways to ask that this collection has.
export function waysOf(page) {
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
    const hint = info.items === "strings" ? "Compared as it is." : WORDS;
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
  const told = h("p", { class: "hint", "aria-live": "polite" });
  const zone = h("div", { class: "drop" }, field("Picture: drop one onto the page, or choose a file", file), field("Read as", reading), told);
  const way = { title: "a picture", controls: zone };
  let dropped = null;
  way.content = async () => {
    const given = dropped || file.files[0];
    if (!given) throw new Error("Choose a picture, or drop one onto the page.");
    page.kept.reading = reading.value;
    replace(told);
    if (reading.value !== FITS) return asQuery(given, reading.value);
    const [best, ...others] = await fitting(page, given, known);
    const words = others.map((one) => ` As ${one.text} it finds ${one.found}.`);
    replace(told, `Read as ${best.text}, which finds ${best.found}.`, words);
    return best.query;
  };
  way.take = (files) => {
    [dropped] = files;
    file.value = "";
  };
  file.addEventListener("change", () => {
    dropped = null;
    if (file.files[0]) page.search();
  });
  reading.addEventListener("change", () => {
    if (dropped || file.files[0]) page.search();
  });
  return way;
}

// What a picture is under each reading, the one first whose nearest stored item is nearer; of equal ones the earlier.
async function fitting(page, file, known) {
  const tried = [];
  for (const [word, text] of known.filter(([one]) => one !== FITS)) {
    const query = await asQuery(file, word);
    // A white sheet has no ink: nothing is like it.
    if (!query.vector.some(Boolean)) continue;
    const body = { ...query, k: 1, include: [] };
    const { results } = await ask("POST", collectionPath(page.name, "query"), body, { signal: page.signal });
    const [{ score, distance }] = results.length ? results : [{}];
    const far = distance ?? (score === undefined ? Infinity : -score);
    const found = far === Infinity ? "nothing" : `a nearest item of ${distance === undefined || distance === null ? "score" : "distance"} ${short(distance ?? score)}`;
    tried.push({ text, query, far, found });
  }
  return tried.sort((a, b) => a.far - b.far);
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
      const body = read(text.value);
      if (typeof body !== "object" || body === null || Array.isArray(body))
        throw new Error('A query is an object, such as {"vector": [1, 2, 3]}, or {"id": "a", "k": 3}.');
      return body;
    },
  };
}

