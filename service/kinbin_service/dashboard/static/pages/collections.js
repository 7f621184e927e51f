// All collections: how large they are, how their indexes stand, and what failed last.
import { ask, describe, each, hasKey } from "../api.js";
import { bytes, h, integer, percent, replace, table } from "../dom.js";
import { trouble } from "../trouble.js";

const MOST = 200;
const HEADS = ["Collection", "Holds", "Items", "Rows", "Bytes", "Runs", "Linked", "Upkeep", "Last failure"];

export async function show({ holder, signal }) {
  const { collections } = await ask("GET", "/v1/collections", undefined, { signal });
  if (!collections.length) {
    replace(holder, h("p", {}, "There are no collections yet. ", h("a", { href: "#/console" }, "Make one in the console"), "."));
    return;
  }
  const told = new Map();
  const list = h("div", {});
  const wanted = h("input", { type: "search", "aria-label": "Names that contain", placeholder: "Names that contain …" });
  const draw = () => {
    const names = collections.filter((name) => name.includes(wanted.value));
    replace(
      list,
      table(
        `${integer(names.length)} of ${integer(collections.length)} collections`,
        HEADS,
        names.slice(0, MOST).map((name) => row(name, told.get(name))),
      ),
    );
    return names.slice(0, MOST);
  };
  const look = async () => {
    const names = draw().filter((name) => !told.has(name));
    await each(names, async (name) => {
      try {
        told.set(name, await describe(name, { signal }));
      } catch (error) {
        if (signal.aborted) return;
        told.set(name, error);
      }
    });
    if (!signal.aborted) draw();
  };
  wanted.addEventListener("input", look);
  const keyed = h("p", { class: "hint" }, hasKey() ? "Shown are those that the key may read." : "");
  replace(holder, collections.length > 8 ? wanted : null, list, keyed);
  await look();
}

function row(name, info) {
  const link = h("a", { href: `#/c/${encodeURIComponent(name)}/query` }, name);
  if (!info) return [link, ...HEADS.slice(1).map(() => "…")];
  if (info instanceof Error) return [link, trouble(info)];
  const parts = info.stats.fields ? Object.values(info.stats.fields) : [info.stats];
  const sum = (of) => parts.reduce((all, one) => all + (of(one) || 0), 0);
  const rows = sum((one) => one.rows);
  const background = parts
    .map((one) => one.background)
    .concat(info.stats.background)
    .filter(Boolean);
  return [
    link,
    `${info.items}${info.kernel ? `, ${info.kernel}` : ""}`,
    integer(info.count),
    integer(rows),
    bytes(info.stats.bytes ?? sum((one) => one.bytes)),
    integer(sum((one) => one.runs?.length)),
    rows ? percent(Math.min(1, sum((one) => one.links?.rows) / rows)) : "–",
    upkeep(
      sum((one) => one.fresh_rows),
      sum((one) => one.dead_rows),
      background,
    ),
    failure(background),
  ];
}

function upkeep(fresh, dead, background) {
  const failing = background.some((tasks) => Object.values(tasks).some((task) => task?.in_a_row > 0));
  const parts = [fresh ? `${integer(fresh)} fresh` : null, dead ? `${integer(dead)} dead` : null].filter(Boolean);
  return h("span", { class: failing ? "bad" : "good" }, failing ? "failing; " : "", parts.length ? parts.join(", ") : "nothing to do");
}

// The last failure of each kind of background work that has failed in this worker.
function failure(background) {
  const told = background.flatMap((tasks) => Object.entries(tasks)).filter(([, task]) => task?.last_failure);
  if (!told.length) return "none";
  return h(
    "span",
    { class: "bad" },
    told.map(([kind, task]) => `${kind}: ${said(task.last_failure)} (${task.failures} in all)`).join("; "),
  );
}

const said = (one) => (typeof one === "string" ? one : one.message || one.reason || JSON.stringify(one));
