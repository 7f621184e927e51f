// A cluster: its nodes, its shards with their copies, what moves and what is missing. Gateways have it; one server has not.
import { ask } from "../api.js";
import { bytes, h, integer, percent, replace, short, table } from "../dom.js";
import { trouble } from "../trouble.js";

const SECONDS = 2;
const MOST = 200;
const NODES = ["Node", "State", "Zone", "Shards", "Items", "Behind", "Load", "Files", "Disk free"];
const SHARDS = ["Shard", "State", "Items", "Bytes", "Copies"];

export async function show({ holder, signal }) {
  const parts = { told: h("div", {}), moving: h("div", {}), nodes: h("div", {}), shards: h("div", {}) };
  const only = h("input", { type: "checkbox", id: "only-trouble" });
  const choice = h("label", { class: "way", for: "only-trouble" }, only, "Only shards that are not well");
  let last = null;
  const draw = () => {
    if (last) drawAll(parts, last, only.checked);
  };
  only.addEventListener("change", draw);
  const first = await ask("GET", "/v1/cluster", undefined, { signal });
  replace(holder, parts.told, parts.moving, h("h2", {}, "Nodes"), parts.nodes, h("h2", {}, "Shards"), choice, parts.shards);
  last = first;
  draw();
  refresh(signal, (told) => {
    if (told instanceof Error) {
      drawn.delete(parts.told);
      replace(parts.told, trouble(told));
    } else {
      last = told;
      draw();
    }
  });
}

// Asks again every other second while the page is shown and looked at.
function refresh(signal, take) {
  const again = async () => {
    if (signal.aborted) return;
    if (!document.hidden) {
      try {
        take(await ask("GET", "/v1/cluster", undefined, { signal }));
      } catch (error) {
        if (signal.aborted) return;
        take(error);
      }
    }
    timer = setTimeout(again, SECONDS * 1000);
  };
  let timer = setTimeout(again, SECONDS * 1000);
  signal.addEventListener("abort", () => clearTimeout(timer));
}

const drawn = new WeakMap();

// Draws a part when what it says has changed; who was inside of it stays at its beginning.
function put(part, key, ...content) {
  const text = JSON.stringify(key);
  if (drawn.get(part) === text) return;
  drawn.set(part, text);
  const within = part.contains(document.activeElement);
  replace(part, ...content);
  if (within) part.querySelector("[tabindex]")?.focus();
}

function drawAll(parts, told, onlyTrouble) {
  put(parts.told, [told.answering, told.whole, told.nats_connected, told.controller, told.gateways], summary(told));
  const moves = moving(told);
  put(
    parts.moving,
    moves,
    moves.length ? [h("h2", {}, "Under way"), h("ul", { class: "moves" }, moves.map((one) => h("li", {}, one)))] : null,
  );
  put(parts.nodes, told.nodes, table(`${count(told.nodes.length, "node")}`, NODES, told.nodes.map(node)));
  const every = told.collections.flatMap((one) => one.shards.map((shard) => [one, shard]));
  const chosen = every.filter(([, shard]) => !onlyTrouble || shard.state !== "well");
  const caption = `${integer(chosen.length)} of ${count(every.length, "shard")}${chosen.length > MOST ? `, the first ${MOST}` : ""}`;
  put(
    parts.shards,
    [caption, chosen],
    every.length
      ? table(
          caption,
          SHARDS,
          chosen.slice(0, MOST).map(([of, shard]) => row(of, shard)),
        )
      : h("p", {}, "There are no collections yet."),
  );
}

const count = (number, word) => `${integer(number)} ${word}${number === 1 ? "" : "s"}`;

function summary(told) {
  const shards = told.collections.flatMap((one) => one.shards);
  const unanswered = shards.filter((one) => one.state === "unanswered").length;
  const missing = shards.reduce((all, one) => all + one.lacks, 0);
  const lines = [];
  if (unanswered) lines.push(bad(`Nobody answers for ${count(unanswered, "shard")}.`));
  if (missing) lines.push(bad(missing === 1 ? "1 replica is missing." : `${integer(missing)} replicas are missing.`));
  if (!told.nats_connected) lines.push(bad("This gateway is not connected to NATS: reads go on, writes are refused."));
  if (!lines.length) lines.push(h("p", { class: "good" }, "Every shard has all of its replicas."));
  const gateways = told.gateways.length ? told.gateways.map((one) => one.name).join(", ") : "none has told of itself";
  lines.push(h("p", { class: "hint" }, `Gateways: ${gateways}. Controller: ${told.controller ?? "none"}.`));
  return lines;
}

const bad = (text) => h("p", { class: "bad" }, text);

// What goes on, in sentences.
function moving(told) {
  const lines = told.reshards.map((one) =>
    one.state === "copying"
      ? `${one.name} is cut into ${count(one.shards, "shard")}: ${one.into} is filled.`
      : `${one.name} is cut into ${count(one.shards, "shard")}: all is copied, the name follows.`,
  );
  for (const { name, shards } of told.collections) {
    for (const shard of shards) {
      const first = Math.max(0, ...shard.copies.map((copy) => copy.applied ?? 0));
      for (const copy of shard.copies) {
        if (copy.role === "joining") lines.push(`Shard ${shard.shard} of ${name} comes to ${copy.node}: ${joining(copy, first)}.`);
        if (copy.role === "leaving") lines.push(`Shard ${shard.shard} of ${name} leaves ${copy.node}.`);
      }
      if (shard.nowhere) lines.push(`No node can take shard ${shard.shard} of ${name}: start another one.`);
    }
  }
  return lines;
}

function joining(copy, first) {
  if (copy.problem) return copy.problem;
  if (copy.state === null) return "not begun";
  return copy.state === "restoring" || !first ? copy.state : `${copy.state}, ${percent(Math.min(1, copy.applied / first))} of the log`;
}

function node(one) {
  const words = [one.live ? "live" : one.lost ? `silent since ${new Date(one.lost * 1000).toLocaleString("en-GB")}` : "silent"];
  if (one.draining) words.push("draining");
  const free = one.disk_bytes ? one.disk_free / one.disk_bytes : null;
  const room = free === null ? "–" : `${bytes(one.disk_free)} (${percent(free)})`;
  return [
    one.name,
    h("span", { class: one.live ? "good" : "bad" }, words.join(", ")),
    one.zone || "–",
    integer(one.shards),
    integer(one.items),
    integer(one.lag),
    short(one.load),
    bytes(one.bytes),
    free !== null && free < 0.1 ? h("span", { class: "bad" }, room) : room,
  ];
}

function row(of, shard) {
  const link = h("a", { href: `#/c/${encodeURIComponent(of.name)}/query` }, of.name);
  const state = shard.lacks && shard.state !== "unanswered" ? `lacks ${shard.lacks} of ${of.replicas}` : shard.state;
  const closed = { pause: "; writes pause", kept: "; kept, takes no writes" }[of.closed] ?? "";
  return [
    h("span", {}, link, ` ${shard.shard}`),
    h("span", { class: ["well", "moving"].includes(shard.state) ? "good" : "bad" }, state + closed),
    integer(shard.items),
    bytes(shard.bytes),
    h(
      "ul",
      { class: "copies" },
      shard.copies.map((copy) => h("li", { class: ails(copy) ? "bad" : null }, words(shard, copy))),
    ),
  ];
}

// Who only joins does not answer yet, and that is as it should be.
const ails = (copy) => !copy.live || copy.problem || (copy.role === "replica" && copy.state !== "live");

// "node-1: live, holder, 12 messages behind (3 s)"
function words(shard, copy) {
  const told = [copy.live ? (copy.state ?? "has told nothing") : "silent"];
  if (copy.role !== "replica") told.push(copy.role);
  else if (shard.holder === copy.node) told.push("holder");
  if (copy.lag) told.push(`${count(copy.lag, "message")} behind${copy.lag_seconds >= 1 ? ` (${Math.round(copy.lag_seconds)} s)` : ""}`);
  if (copy.problem) told.push(copy.problem);
  return `${copy.node}: ${told.join(", ")}`;
}
