// How unevenly rows fall into the buckets of the bands: what a query reads beside what even buckets would cost.
import { hashed, unhashed } from "../api.js";
import { chart } from "../charts.js";
import { h, integer, percent, replace, short, table } from "../dom.js";

export async function show({ holder, info }) {
  const runs = info.stats.fields
    ? Object.entries(info.stats.fields).flatMap(([name, of]) => (of.runs || []).map((run) => ({ ...run, of: name })))
    : info.stats.runs || [];
  const banded = runs.filter((run) => run.bands > 0 && run.slot_bits);
  if (!banded.length) {
    replace(
      holder,
      h(
        "p",
        {},
        !hashed(info)
          ? `${unhashed(info)} So there are no buckets.`
          : runs.length
            ? "No run of this collection has bands: its kernel states no collision law, or every query scans it."
            : "Nothing is sealed into a run yet: small collections are scanned, and have no buckets.",
      ),
    );
    return;
  }
  const told = banded.map((run) => {
    const even = (run.rows * run.bands) / 2 ** run.slot_bits;
    return { ...run, even, skew: run.postings_per_query / Math.max(even, 1e-9) };
  });
  replace(
    holder,
    h(
      "p",
      {},
      "A query reads one bucket a band. With even buckets it would read rows × bands / buckets postings; like rows share buckets, so it reads more. Their ratio is the skew.",
    ),
    chart({
      about: "Postings that a query reads in each run, and what even buckets would make it read",
      x: told.map((_, at) => at + 1),
      xLabel: "run",
      yLabel: "postings a query",
      places: true,
      series: [
        { label: "read", drawn: "bars", values: told.map((run) => run.postings_per_query) },
        { label: "even buckets", drawn: "points", size: 12, values: told.map((run) => run.even) },
      ],
    }),
    table(
      "Runs",
      ["Run", "Rows", "Live", "Hashes a band", "Bands", "Buckets a band", "Postings read", "Even", "Skew", "Scored", "Uncertified"],
      told.map((run, at) => [
        run.of ? `${run.of} ${at + 1}` : `${at + 1}`,
        integer(run.rows),
        integer(run.live),
        integer(run.r),
        integer(run.bands),
        integer(2 ** run.slot_bits),
        integer(run.postings_per_query),
        short(run.even),
        `${short(Number(run.skew.toFixed(2)))}`,
        integer(run.verified_per_query),
        percent(run.uncertified_share),
      ]),
    ),
  );
}
