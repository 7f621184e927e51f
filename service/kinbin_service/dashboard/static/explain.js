// Why an item scored so: the terms that add up to its score, the bands it shares with the query, and its place in the walk.
import { ask, collectionPath } from "./api.js";
import { trouble } from "./trouble.js";
import { chart } from "./charts.js";
import { append, h, hashes, integer, percent, replace, short, table } from "./dom.js";
import { thumbnail } from "./answers.js";
import { source } from "./json.js";
import { colourLevels, swatch } from "./pictures.js";
import { snippets } from "./snippets.js";

const SHOWN = 25;
const LISTED = 50;
const LONGEST = 100000;
const NAMED = 5000;
const HEADS = [
  ["query", "Query"],
  ["item", "Item"],
  ["min", "Min"],
  ["max", "Max"],
  ["query_at", "At"],
  ["item_at", "Item at"],
  ["apart", "Apart"],
  ["part", "Part"],
];

// Shows, for one item of an answer, what its score is made of; of several fields one after the other.
// opener: what has the focus back when the view is closed.
export async function explain(holder, page, query, hit, opener) {
  const leave = () => {
    replace(holder);
    opener?.focus();
  };
  const close = h("button", { type: "button", onclick: leave }, "Close");
  const heading = h("h2", { tabindex: -1 }, `Why ${hit.id}`);
  const panel = h("section", { class: "panel", "aria-label": `Why ${hit.id}` }, h("div", { class: "row" }, heading, close));
  const path = collectionPath(page.name, "explain");
  const colours = thumbnail(hit.payload) !== null && !page.info.fields && colourLevels(page.info);
  replace(holder, panel);
  try {
    for (const body of bodies(page, query, hit)) {
      const told = await ask("POST", path, body, { signal: page.signal });
      const { s_curve: _, feature_names: __, ...shown } = body;
      append(panel, [body.field ? h("h3", {}, body.field) : null, ...explained(told, colours), snippets("POST", path, shown)]);
    }
  } catch (error) {
    if (!page.signal.aborted) append(panel, [trouble(error)]);
  }
  heading.focus();
}

function bodies({ info, last }, query, hit) {
  const asked = { id: hit.id, limit: LISTED, s_curve: true, ...(query.k ? { k: query.k } : {}) };
  // Tokens are stored as numbers: the words of the texts beside them may be their names.
  const names = info.items === "vectors" && !info.dim && !info.fields ? wordsOf(hit.payload, last?.asked?.payload) : [];
  if (names.length) asked.feature_names = names;
  const { id, vector, string, series, points, image, vectors } = query;
  if (info.fields) {
    const names = Object.keys(hit.parts || vectors || info.fields).filter((name) => id !== undefined || vectors?.[name]);
    return names.map((field) => ({ ...(id === undefined ? { vector: vectors[field] } : { query_id: id }), ...asked, field }));
  }
  if (id !== undefined) return [{ query_id: id, ...asked }];
  const given = Object.entries({ vector, string, series, points, image }).filter(([, value]) => value !== undefined);
  return [{ ...Object.fromEntries(given), ...asked }];
}

// As they stand there, and in lower case; each once.
function wordsOf(...payloads) {
  const texts = payloads.flatMap((payload) => Object.values(payload ?? {}).filter((value) => typeof value === "string"));
  const found = texts.flatMap((text) => text.slice(0, LONGEST).match(/[\p{L}\p{N}_]{1,100}/gu) ?? []);
  return [...new Set(found.flatMap((word) => [word, word.toLowerCase()]))].slice(0, NAMED);
}

function explained(told, colours) {
  const factors = told.factors || [told];
  return [
    h(
      "p",
      {},
      h("b", {}, `${told.ascending ? "Distance" : "Score"} ${short(told.score)}`),
      ` by ${told.kernel}: `,
      h("code", {}, told.formula),
      ".",
    ),
    factors.map((factor) => factored(factor, factors.length > 1, colours)),
    found(told),
  ].flat(Infinity);
}

// The terms of a kernel, or of one factor of a product; their parts add up to its sum.
function factored(factor, several, colours) {
  const { terms, rest } = factor;
  const made = several ? [h("h3", {}, factor.kernel), h("p", {}, `${short(factor.value)}: `, h("code", {}, factor.formula))] : [];
  if (factor.outer)
    made.push(h("p", {}, "The score is ", h("code", {}, factor.outer), ` of x = ${short(factor.sum)}, which the parts add up to.`));
  if (terms.length) {
    const shown = terms.slice(0, SHOWN);
    made.push(
      chart({
        about: `The ${integer(shown.length)} largest parts, of ${integer(terms.length + (rest?.features || 0))}`,
        x: shown.map((_, at) => at + 1),
        xLabel: "place",
        places: true,
        yLabel: "part",
        height: 180,
        legend: false,
        series: [{ label: "part", values: shown.map((term) => term.part), drawn: "bars" }],
      }),
    );
    const heads = HEADS.filter(([name]) => shown.some((term) => term[name] !== undefined && term[name] !== null));
    const rows = shown.map((term) => [named(term, colours), ...heads.map(([name]) => valued(term[name]))]);
    made.push(table("The largest parts", [shown[0].what ? "What" : "Feature", ...heads.map(([, text]) => text)], rows));
  }
  if (rest?.features) made.push(h("p", {}, `${integer(rest.features)} other features add ${short(rest.part)}.`));
  for (const one of factor.constants || []) made.push(h("p", {}, `${one.name}: ${short(one.part)}.`));
  return made;
}

const named = (term, colours) => {
  if (term.what) return term.what;
  if (term.name) return term.name;
  const feature = source(term, "feature") ?? `${term.feature}`;
  return colours ? h("span", { class: "row" }, swatch(term.feature, colours), feature) : feature;
};

const valued = (value) =>
  typeof value === "number" ? short(value) : typeof value === "object" && value ? JSON.stringify(value) : (value ?? "–");

function found(told) {
  const parts = [];
  if (told.bands) {
    const { rows, bands, shared, p_found: chance, s_curve: curve } = told.bands;
    parts.push(
      h("h3", {}, "Bands"),
      h(
        "p",
        {},
        `Query and item share ${integer(shared)} of ${integer(bands)} bands of ${integer(rows)} ${hashes(rows)}. `,
        chance === null || chance === undefined ? "" : `An item of this score is found by them with probability ${percent(chance)}.`,
      ),
    );
    if (curve?.length) {
      parts.push(
        chart({
          about: `Probability that bands find an item, by its score; this one has ${short(told.score)}`,
          x: curve.map(([score]) => score),
          xLabel: "score",
          yLabel: "P(found)",
          height: 200,
          ranges: { y: [0, 1.05] },
          series: [
            { label: "P(found)", values: curve.map(([, p]) => p) },
            {
              label: "this item",
              drawn: "points",
              size: 12,
              values: nearest(
                curve.map(([score]) => score),
                told.score,
                chance,
              ),
            },
          ],
        }),
      );
    }
  } else if (told.no_bound) {
    parts.push(h("h3", {}, "Bands"), h("p", {}, `No probability: ${told.no_bound}.`));
  }
  if (told.walk) {
    parts.push(
      h("h3", {}, "Walk"),
      h(
        "p",
        {},
        told.walk.rank === null
          ? `A walk for ${told.walk.k}${width(told.walk)} does not answer it.`
          : `A walk for ${told.walk.k}${width(told.walk)} answers it in place ${told.walk.rank}.`,
      ),
    );
  }
  return parts;
}

const width = (walk) => (walk.width ? `, ${integer(walk.width)} nodes wide,` : "");

// One value at the x next to a place, null elsewhere.
function nearest(x, at, value) {
  let best = 0;
  x.forEach((one, place) => {
    if (Math.abs(one - at) < Math.abs(x[best] - at)) best = place;
  });
  return x.map((_, place) => (place === best ? (value ?? null) : null));
}
