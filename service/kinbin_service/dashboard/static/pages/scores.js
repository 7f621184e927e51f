// How similar the items are to each other, under the S-curve of banding: what r and L would find, and what they would cost.
import { ask, collectionPath, describe, hashed, unhashed } from "../api.js";
import { trouble } from "../trouble.js";
import { chart } from "../charts.js";
import { bytes, dialog, field, h, hashes, integer, percent, replace, say, select, short, table } from "../dom.js";
import { snippets } from "../snippets.js";

const POINTS = 400;
// Larger collections are measured when somebody asks for it: each sampled row is an exact scan.
const AT_ONCE = 20000;
const grid = Array.from({ length: POINTS + 1 }, (_, at) => at / POINTS);

export const sCurve = (rows, bands) => grid.map((s) => 1 - (1 - s ** rows) ** bands);

export async function show({ holder, name, info, signal }) {
  if (!hashed(info)) {
    replace(holder, h("p", {}, `${unhashed(info)} There is nothing to set, and nothing to measure here.`));
    return;
  }
  const of = info.fields ? select(Object.keys(info.fields)) : null;
  const part = () => (of ? info.stats.fields[of.value] : info.stats);
  const slider = (most) => h("input", { type: "range", min: 1, max: most });
  const rows = slider(8);
  const bands = slider(255);
  const start = (setting) => {
    for (const [control, value] of [[rows, setting.r], [bands, setting.bands]]) {
      control.max = Math.max(control.max, value);
      control.value = value;
    }
  };
  start(present(part()));
  const told = h("output", {});
  const drawing = h("div", {});
  const results = h("div", {});
  let histogram = null;
  let plot = null;
  const heights = () =>
    histogram
      ? [stepped(histogram.edges, histogram.pairs), stepped(histogram.edges, histogram.neighbours)]
      : [grid.map(() => null), grid.map(() => null)];
  const move = () => {
    const [r, L] = [Number(rows.value), Number(bands.value)];
    told.textContent = `r = ${r} ${hashes(r)} a band and L = ${L} bands. Half of the items of similarity ${(1 - 0.5 ** (1 / L)) ** (1 / r) < 0.001 ? "0" : ((1 - 0.5 ** (1 / L)) ** (1 / r)).toFixed(3)} are found${found(histogram, r, L)}.`;
    rows.setAttribute("aria-valuetext", `${r} ${hashes(r)}`);
    bands.setAttribute("aria-valuetext", `${L} bands`);
    plot?.update([...heights(), sCurve(r, L)]);
  };
  const draw = () => {
    plot = chart({
      about:
        "How similar all pairs and nearest neighbours of a sample are, by the chance s that one of their hashes agrees (of min-max kernels, their score); and the probability 1 − (1 − s^r)^L that bands find such a pair",
      x: grid,
      xLabel: "s: chance that a hash agrees",
      yLabel: "share of pairs, of the highest",
      y2Label: "P(found)",
      height: 340,
      ranges: { x: [0, 1], y: [0, 1.05], right: [0, 1.05] },
      series: [
        { label: "all pairs", drawn: "steps", values: heights()[0] },
        { label: "nearest neighbours", drawn: "steps", values: heights()[1] },
        { label: "S-curve", scale: "right", values: sCurve(Number(rows.value), Number(bands.value)) },
      ],
    });
    replace(drawing, plot);
    move();
  };
  let moved = false;
  for (const control of [rows, bands])
    control.addEventListener("input", () => {
      moved = true;
      move();
    });
  of?.addEventListener("change", () => {
    histogram = null;
    moved = false;
    start(present(part()));
    draw();
  });
  const anew = async () => {
    info.stats = (await describe(name, { signal })).stats;
  };
  const measure = formOf({ name, of, part, anew, signal, results }, (made) => {
    histogram = made.similarity_histogram;
    if (!moved) start({ r: made.current.rows, bands: made.current.bands });
    draw();
  });
  replace(
    holder,
    measure.form,
    h(
      "div",
      { class: "panel" },
      h("div", { class: "row fields" }, field("r: hashes a band", rows), field("L: bands", bands)),
      h("p", { class: "hint", "aria-live": "polite" }, told),
      drawing,
    ),
    results,
  );
  draw();
  if (info.count <= AT_ONCE) await measure.run();
}

// How most rows lie in bands; without runs as they are hashed until then.
const present = ({ runs }) => (runs || []).reduce((most, run) => (run.bands && run.rows >= most.rows ? run : most), { rows: 0, r: 1, bands: 128 });

// "…, and of the sampled neighbours 97.1 %": the mean of the curve over the histogram of neighbours.
function found(histogram, r, L) {
  const total = histogram?.neighbours.reduce((all, one) => all + one, 0);
  if (!total) return "";
  const mean =
    histogram.neighbours.reduce((all, count, bin) => {
      const s = Math.max(0, (histogram.edges[bin] + histogram.edges[bin + 1]) / 2);
      return all + count * (1 - (1 - s ** r) ** L);
    }, 0) / total;
  return `, and ${percent(mean)} of the sampled neighbours`;
}

function stepped(edges, counts) {
  const most = Math.max(...counts, 1e-12);
  let bin = 0;
  return grid.map((s) => {
    while (bin < counts.length - 1 && s >= edges[bin + 1]) bin += 1;
    return s < edges[0] || s > edges.at(-1) ? 0 : counts[bin] / most;
  });
}

// of: which of several vectors is looked at; null where there is one. part: what is told of it, as of the last `anew`.
function formOf({ name, of, part, anew, signal, results }, drawn) {
  const k = h("input", { type: "number", min: 1, max: 100, value: 10 });
  const recall = h("input", { type: "number", min: 0.01, max: 1, step: 0.01, value: 0.9 });
  const sample = h("input", { type: "number", min: 1, max: 5000, value: 200 });
  const button = h("button", { class: "primary" }, "Measure");
  const run = async () => {
    if (part().rows < 2) {
      replace(results, h("p", {}, "There are fewer than two different items: nothing has a neighbour. There is nothing to rebuild yet."));
      return;
    }
    const body = { k: Number(k.value), target_recall: Number(recall.value), sample: Number(sample.value), ...(of ? { field: of.value } : {}) };
    const path = collectionPath(name, "tune");
    button.disabled = true;
    replace(results, h("p", {}, "Measuring on a sample …"));
    try {
      const made = await ask("POST", path, body, { signal });
      drawn(made);
      replace(results, ...tuned(name, body.field, made, part(), again), snippets("POST", path, body));
    } catch (error) {
      if (!signal.aborted) replace(results, trouble(error), snippets("POST", path, body));
    } finally {
      button.disabled = false;
    }
  };
  const again = async () => {
    await anew();
    await run();
  };
  const form = h(
    "form",
    {
      class: "panel row fields",
      onsubmit: (event) => {
        event.preventDefault();
        run();
      },
    },
    field("k", k),
    field("Target recall", recall),
    field("Sample", sample),
    of && field("Vector", of),
    button,
  );
  return { form, run };
}

// part: what is told of the vector; again: measures anew, as after a rebuild.
function tuned(name, of, made, part, again) {
  const { current, suggested, bands, walks } = made;
  if (!current.runs) return [h("p", {}, "No row lies in a run with bands: queries scan all of them. There is nothing to rebuild yet.")];
  const { pays, says } = verdict(made, part);
  const onclick = async () => {
    if (await rebuild(name, of, suggested)) await again();
  };
  const then = bands.find((one) => alike(one, suggested));
  return [
    h("p", {}, h("b", {}, pays ? "A rebuild pays. " : "There is no need to rebuild. "), says),
    current.bands
      ? h(
          "p",
          {},
          `Now: ${layout(current)}. They find ${percent(current.recall)} of the nearest in ${time(current.microseconds)}, as predicted; ` +
            `measured ${percent(current.measured_recall)} in ${time(current.measured_microseconds)}.`,
        )
      : null,
    stays(made)
      ? null
      : [
          h(
            "p",
            {},
            h("b", {}, `Suggested: ${layout(suggested)}. `),
            then ? `They would find ${percent(then.recall)} in ${time(then.microseconds)}.${scanned(then)}` : `${suggested.why}.`,
          ),
          h("button", { type: "button", class: pays ? "primary" : null, onclick }, "Rebuild so"),
        ],
    bands.length ? recallAndTime(made) : null,
    table(
      "What bands would do",
      ["Hashes a band", "Bands", "Recall", "Postings", "Scored", "Bytes a row", "Time"],
      bands.map((one) => [
        integer(one.rows),
        integer(one.bands),
        `${percent(one.recall)} ± ${percent(one.recall_error)}`,
        integer(one.postings),
        integer(one.verified),
        bytes(one.bytes_per_row),
        time(one.microseconds),
      ]),
    ),
    walks.length
      ? table(
          "What walks do",
          ["Width", "Recall", "Time"],
          walks.map((one) => [integer(one.width), percent(one.recall), time(one.microseconds)]),
        )
      : h("p", { class: "hint" }, "There are no links yet, so there are no walks."),
  ];
}

const alike = (one, other) => one.rows === other.rows && one.bands === other.bands;
const stays = ({ current, suggested }) => current.runs === 1 && alike(current, suggested);
const scanned = ({ uncertified }) => (uncertified > 0 ? ` Mode auto would scan for ${percent(uncertified)} of the queries.` : "");

// Bands that save less than this share of the time are not worth a rebuild.
const LEAST_GAIN = 0.2;

// Whether queries in mode auto gain by the suggested bands, and why.
function verdict(made, part) {
  const { current, suggested, bands, walks, target_recall: target } = made;
  const then = bands.find((one) => alike(one, suggested));
  const rest = "Bands answer only what asks for mode bands or a certificate.";
  if (stays(made)) return { pays: false, says: "None of the other settings costs less than the one that is there." };
  if (part.auto === "links") {
    const walk = walks.findLast((one) => one.width <= (part.links?.pool ?? 0));
    const told = walk ? `, which finds ${percent(walk.recall)} of the nearest in ${time(walk.microseconds)}` : "";
    return { pays: false, says: `Queries in mode auto walk the links${told}. ${rest}` };
  }
  if (part.auto === "exact" && suggested.why.includes("bands are no faster than scans"))
    return { pays: false, says: `Queries in mode auto score every row, and bands are no faster here. ${rest}` };
  if (current.recall < target && then?.recall > current.recall)
    return { pays: true, says: `The bands that are there find less than the target of ${percent(target)}, the suggested ones more.` };
  const saved = then ? 1 - then.microseconds / current.microseconds : 0;
  if (part.auto === "exact") return { pays: true, says: "Queries in mode auto score every row now, and could be answered by bands." };
  return saved < LEAST_GAIN
    ? { pays: false, says: "The bands that are there are about as fast as the suggested ones, and find enough." }
    : { pays: true, says: `Queries by bands would take ${percent(saved)} less time.` };
}

const layout = ({ rows, bands }) => `${integer(bands)} bands of ${integer(rows)} ${hashes(rows)}`;
const time = (microseconds) => (typeof microseconds === "number" ? `${short(Number(microseconds.toFixed(1)))} µs` : "–");

// Every setting by its predicted time and recall, and the present one as it was predicted and measured.
function recallAndTime({ bands, walks, current }) {
  const points = [
    ...bands.map((one) => ["bands", one.microseconds, one.recall]),
    ...walks.map((one) => ["walks", one.microseconds, one.recall]),
    ...(current.bands ? [["now, predicted", current.microseconds, current.recall]] : []),
    ...(current.bands ? [["now, measured", current.measured_microseconds ?? current.microseconds, current.measured_recall]] : []),
  ].sort((a, b) => a[1] - b[1]);
  const series = (label, size) => ({
    label,
    size,
    drawn: "points",
    values: points.map(([of, , recall]) => (of === label ? recall : null)),
  });
  const least = Math.min(...points.map(([, , recall]) => recall));
  // Points of the greatest and the least recall are seen whole.
  const room = (1 - least || 0.2) / 20;
  return chart({
    about: "Predicted recall and time of each setting, and the present one as it was predicted and measured",
    x: points.map(([, microseconds]) => microseconds),
    xLabel: "µs a query",
    yLabel: "recall",
    ranges: { y: [least - room, 1 + room] },
    series: [series("bands", 7), series("walks", 7), series("now, predicted", 12), series("now, measured", 12)],
  });
}

async function rebuild(name, of, { rows, bands }) {
  const path = collectionPath(name, "rebuild");
  const text = `All rows are laid out in ${bands} bands of ${rows} ${hashes(rows)}. Queries and adds go on meanwhile.`;
  const done = await dialog("Rebuild", h("p", {}, text), { action: "Rebuild", submit: () => ask("POST", path, { rows, bands, ...(of ? { field: of } : {}) }) });
  if (done) say(`${integer(done.count)} rows lie in new bands.`);
  return done;
}
