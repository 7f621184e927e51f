// The items of a sample in two dimensions, near where their kernel says so; each can be opened.
import { ask, collectionPath } from "../api.js";
import { cut, figure, summary } from "../answers.js";
import { trouble } from "../trouble.js";
import { chart, colours } from "../charts.js";
import { field, h, integer, replace, select, short } from "../dom.js";
import { snippets } from "../snippets.js";

const METHODS = [
  ["kernel_pca", "kernel PCA"],
  ["spectral", "spectral layout"],
];

export async function show({ holder, name, info, signal }) {
  const names = await payloadFields(name, signal);
  const sample = h("input", { type: "number", min: 10, max: 2000, value: 500 });
  const method = select(METHODS, "kernel_pca");
  const by = select([["", "nothing"], ...names.map((one) => [one, one])], names[0] || "");
  const of = info.fields ? select(Object.keys(info.fields)) : null;
  const results = h("div", {});
  const button = h("button", { class: "primary" }, "Draw");
  const run = async () => {
    const body = {
      sample: Number(sample.value),
      method: method.value,
      ...(by.value ? { fields: [by.value] } : {}),
      ...(of ? { field: of.value } : {}),
    };
    const path = collectionPath(name, "map");
    button.disabled = true;
    replace(results, h("p", {}, "Laying out a sample …"));
    try {
      const made = await ask("POST", path, body, { signal });
      replace(results, ...mapped(made, by.value, { name, signal }), snippets("POST", path, body));
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
      field("Sample", sample),
      field("Layout", method),
      field("Colour by", by),
      of && field("Vector", of),
      button,
    ),
    results,
  );
  await run();
}

// Fields of payloads, of some items, that are no pictures or long texts; words before numbers.
async function payloadFields(name, signal) {
  const { items } = await ask("POST", collectionPath(name, "scroll"), { limit: 20, include: ["payload"] }, { signal });
  const found = new Set();
  for (const { payload } of items) {
    for (const [field_, value] of Object.entries(payload || {})) {
      if (["number", "boolean"].includes(typeof value) || (typeof value === "string" && value.length < 64)) found.add(field_);
    }
  }
  const numeric = (one) => items.some(({ payload }) => typeof payload?.[one] === "number");
  return [...found].sort((a, b) => numeric(a) - numeric(b));
}

const RANGES = 8;

// The groups that points are coloured by: each value; of more values than colours ranges of numbers, or the most frequent ones.
export function groups(values) {
  const counts = new Map();
  for (const value of values) counts.set(value, (counts.get(value) || 0) + 1);
  if (counts.size <= colours)
    return groupOf([...counts.keys()].sort((a, b) => (a > b ? 1 : -1)).map((value) => [String(value ?? "none"), (one) => one === value]));
  if ([...counts.keys()].every((value) => typeof value === "number")) {
    const ordered = [...values].sort((a, b) => a - b);
    const edges = Array.from({ length: RANGES - 1 }, (_, at) => ordered[Math.floor(((at + 1) * ordered.length) / RANGES)]);
    const bounds = [...new Set(edges)];
    return groupOf(
      [...bounds, Infinity].map((edge, at) => [
        at === 0
          ? `below ${short(edge)}`
          : edge === Infinity
            ? `from ${short(bounds[at - 1])}`
            : `${short(bounds[at - 1])} to ${short(edge)}`,
        (one) => one < edge && (at === 0 || one >= bounds[at - 1]),
      ]),
    );
  }
  const common = [...counts]
    .sort((a, b) => b[1] - a[1])
    .slice(0, colours - 1)
    .map(([value]) => value);
  return groupOf([...common.map((value) => [String(value ?? "none"), (one) => one === value]), ["others", (one) => !common.includes(one)]]);
}

const groupOf = (pairs) => pairs.map(([label, holds]) => ({ label: cut(label, 40), holds }));

function mapped(made, by, page) {
  const points = [...made.points].sort((a, b) => a.x - b.x);
  if (!points.length) return [h("p", {}, "There are no items to lay out.")];
  const values = points.map((point) => by.split(".").reduce((value, word) => value?.[word], point.payload) ?? (by ? null : "items"));
  const opened = h(
    "div",
    { class: "opened", "aria-live": "polite" },
    h("p", { class: "hint" }, "Click a point, or walk with the arrow keys, to see an item."),
  );
  let chosen = -1;
  const open = async (place) => {
    chosen = place;
    const shown = await card(points[place], page);
    if (chosen !== place) return;
    replace(opened, shown);
    drawn.plot?.setCursor({ left: drawn.plot.valToPos(points[place].x, "x"), top: drawn.plot.valToPos(points[place].y, "y") }, false);
  };
  const near = (plot, left, top) => {
    let best = [Infinity, -1];
    points.forEach((point, place) => {
      const far = Math.hypot(plot.valToPos(point.x, "x") - left, plot.valToPos(point.y, "y") - top);
      if (far < best[0]) best = [far, place];
    });
    return best;
  };
  const drawn = chart({
    about: `${integer(points.length)} items laid out by ${made.method === "kernel_pca" ? "kernel PCA" : "a spectral layout"} of their exact scores${by ? `, coloured by ${by}` : ""}`,
    x: points.map((point) => point.x),
    xLabel: "",
    yLabel: "",
    height: 460,
    series: groups(values).map(({ label, holds }) => ({
      label,
      drawn: "points",
      size: 7,
      values: points.map((point, place) => (holds(values[place]) ? point.y : null)),
    })),
    hooks: {
      ready: [
        (plot) =>
          plot.over.addEventListener("click", (event) => {
            const box = plot.over.getBoundingClientRect();
            const [far, place] = near(plot, event.clientX - box.left, event.clientY - box.top);
            if (far < 24) open(place);
          }),
      ],
    },
  });
  const walked = h(
    "div",
    {
      tabindex: 0,
      role: "application",
      class: "walked",
      "aria-label": "Map: left and right arrows go from item to item",
      onkeydown: (event) => {
        const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
        if (!step) return;
        event.preventDefault();
        open((chosen + step + points.length) % points.length);
      },
    },
    drawn,
  );
  const shares = made.explained
    ? h(
        "p",
        { class: "hint" },
        `The two axes explain ${made.explained.map((one) => `${(100 * one).toFixed(1)} %`).join(" and ")} of the variance.`,
      )
    : null;
  return [walked, shares, opened];
}

async function card(point, { name, signal }) {
  const { items } = await ask("POST", collectionPath(name, "get"), { ids: [point.id] }, { signal });
  const item = items[0] || point;
  return h(
    "div",
    { class: "card" },
    await figure(item, "auto"),
    h("div", { class: "told" }, h("b", { class: "id" }, point.id), h("small", {}, summary(item, "auto"))),
    h("a", { href: `#/c/${encodeURIComponent(name)}/query?id=${encodeURIComponent(point.id)}` }, "Search from here"),
  );
}
