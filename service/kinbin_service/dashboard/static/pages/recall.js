// Recall measured on stored items against exact scans, beside what the certificates promise, for every mode.
import { ask, collectionPath, hashed, Problem } from "../api.js";
import { trouble } from "../trouble.js";
import { chart } from "../charts.js";
import { field, h, integer, percent, replace, short, table } from "../dom.js";
import { snippets } from "../snippets.js";

// Larger collections are measured when somebody asks for it: each query is an exact scan, too.
const AT_ONCE = 20000;

export async function show({ holder, name, info, signal }) {
  const queries = h("input", { type: "number", min: 1, max: 10000, value: 100 });
  const k = h("input", { type: "number", min: 1, max: 1000, value: 10 });
  const seed = h("input", { type: "number", min: 0, value: 0 });
  const results = h("div", { "aria-live": "polite" });
  const button = h("button", { class: "primary" }, "Measure");
  const run = async () => {
    const path = `${collectionPath(name, "recall")}?queries=${queries.value}&k=${k.value}&seed=${seed.value}`;
    button.disabled = true;
    replace(results, h("p", {}, "Measuring against exact scans …"));
    try {
      const [made, predicted] = await Promise.all([
        ask("GET", path, undefined, { signal }),
        predictions(name, Number(k.value), info, signal),
      ]);
      const nothing = h("p", {}, "There is nothing to measure: no item has a neighbour.");
      replace(results, made.queries ? measured(made, predicted) : nothing, snippets("GET", path));
    } catch (error) {
      if (!signal.aborted) replace(results, trouble(error), snippets("GET", path));
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
      field("Queries", queries),
      field("k", k),
      field("Seed", seed),
      button,
    ),
    results,
  );
  if (info.count <= AT_ONCE) await run();
}

// What `tune` predicts of each mode; nothing where it cannot say.
async function predictions(name, k, info, signal) {
  const found = { exact: 1 };
  // Of several vectors each alone could be predicted, and not what they come to together.
  if (info.fields || !hashed(info) || !info.stats.runs?.length) return found;
  try {
    const { current, walks } = await ask(
      "POST",
      collectionPath(name, "tune"),
      { k: Math.min(k, 100), sample: 50, choices: [{ rows: 1, bands: 1 }] },
      { signal },
    );
    if (current.bands) found.bands = current.recall;
    const walk = walks.findLast((one) => one.width <= (info.stats.links?.pool ?? 0));
    if (walk) found.links = walk.recall;
  } catch (error) {
    // Recall is shown without predictions where these are refused.
    if (!(error instanceof Problem)) throw error;
  }
  return found;
}

function measured({ queries, k, modes }, predicted) {
  const of = (mode) => predicted[mode] ?? null;
  return [
    chart({
      about: `Measured recall at ${integer(k)} of ${integer(queries)} queries by mode, what was predicted, and the mean of the bounds that answers stated`,
      x: modes.map((_, number) => number + 1),
      xLabel: "mode",
      yLabel: "recall",
      places: true,
      names: modes.map((one) => one.mode),
      ranges: { y: [0, 1.05] },
      series: [
        { label: "measured", drawn: "bars", values: modes.map((one) => one.recall) },
        { label: "predicted", drawn: "points", aside: -14, values: modes.map((one) => of(one.mode)) },
        { label: "mean bound", drawn: "points", aside: 14, values: modes.map((one) => one.certificate) },
      ],
    }),
    table(
      "Measured by mode",
      ["Mode", "Recall", "Predicted", "Mean bound", "Lowest", "Median time"],
      modes.map((one) => [
        one.mode,
        percent(one.recall),
        percent(of(one.mode)),
        percent(one.certificate),
        percent(one.lowest),
        `${short(one.milliseconds)} ms`,
      ]),
    ),
  ];
}
