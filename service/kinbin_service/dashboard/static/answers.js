// Items as people see them: a thumbnail, pixels, bars or text.
import { h, short } from "./dom.js";
import { source, write } from "./json.js";
import { pixels } from "./pictures.js";

const PICTURE = /^data:image\/(png|jpeg|webp|gif|svg\+xml);base64,/;
const SERVED = /^\/.*\.(png|jpe?g|webp|gif|svg)$/is;

// A path, and one that leads to this server: browsers read "/\\host" and "/<tab>/host" as "//host".
function served(value) {
  try {
    return SERVED.test(value) && new URL(value, location.href).origin === location.origin;
  } catch {
    return false;
  }
}

// The first field of a payload that is a picture: a data: address, or a path of this server.
export function thumbnail(payload) {
  if (!payload) return null;
  return Object.values(payload).find((value) => typeof value === "string" && (PICTURE.test(value) || served(value))) ?? null;
}

const SOME = 3;

export const VIEWS = [
  ["auto", "what fits"],
  ["thumbnails", "thumbnails"],
  ["pixels", "pixels"],
  ["bars", "bars"],
  ["text", "text"],
];

const isSquare = (length) => Number.isInteger(Math.sqrt(length)) && length >= 16 && length <= 65536;

export function viewOf(item, view) {
  if (view !== "auto") return view;
  if (thumbnail(item.payload)) return "thumbnails";
  if (Array.isArray(item.vector)) return isSquare(item.vector.length) ? "pixels" : "bars";
  return Array.isArray(item.series) && typeof item.series[0] === "number" ? "bars" : "text"; // series of several dimensions have no one line
}

// What an item is drawn as: what was asked for where it can be, words otherwise.
function drawnAs(item, view) {
  const drawn = viewOf(item, view);
  if (drawn === "thumbnails" && thumbnail(item.payload)) return drawn;
  if (drawn === "pixels" && Array.isArray(item.vector) && isSquare(item.vector.length)) return drawn;
  return drawn === "bars" && numbers(item).values.length ? drawn : "text";
}

// The figure of one item. Charts are loaded when the first bars are drawn.
export async function figure(item, view) {
  const drawn = drawnAs(item, view);
  if (drawn === "thumbnails") return h("img", { src: thumbnail(item.payload), alt: `picture of ${item.id}`, class: "thumbnail" });
  if (drawn === "pixels") {
    const canvas = pixels(item.vector);
    canvas.className = "thumbnail";
    canvas.setAttribute("role", "img");
    canvas.setAttribute("aria-label", `the ${item.vector.length} values of ${item.id} as pixels`);
    return canvas;
  }
  if (drawn === "bars") {
    const { x, values } = numbers(item);
    const { chart } = await import("./charts.js");
    return chart({
      about: `${values.length} values of ${item.id}`,
      x,
      xLabel: "",
      yLabel: "",
      height: 130,
      legend: false,
      series: [{ label: "value", values, drawn: item.series ? "line" : "bars" }],
    });
  }
  return h("p", { class: "words" }, words(item));
}

// The numbers of an item, by place or by feature; none for what is no row of numbers.
function numbers({ vector, series }) {
  if (vector && !Array.isArray(vector)) {
    const pairs = (vector.indices || []).map((feature, at) => [feature, vector.values[at]]).sort((a, b) => a[0] - b[0]);
    return { x: pairs.map(([feature]) => feature), values: pairs.map(([, value]) => value) };
  }
  const values = (vector || series || []).filter((value) => typeof value === "number");
  return { x: values.map((_, at) => at), values };
}

const isText = (value) => typeof value === "string" && !PICTURE.test(value);

// The field of the payload that stands for an item drawn as words: its longest text. None where its string is stored.
function wordsField({ string, payload }) {
  const texts = typeof string === "string" ? [] : Object.entries(payload || {}).filter(([, value]) => isText(value));
  return texts.sort(([, a], [, b]) => b.length - a.length)[0]?.[0];
}

// A string that is stored, or the longest text of the payload.
function words(item) {
  if (typeof item.string === "string") return item.string;
  const text = item.payload?.[wordsField(item)];
  if (text || item.points) return text || `${item.points.length} points`;
  return item.vector?.indices && !Object.keys(item.payload || {}).length ? features(item.vector.indices) : "";
}

// What is known of tokens that nothing stands beside: how many there are, and the numbers that their words are stored as.
function features(indices) {
  const some = indices.slice(0, SOME).map((one, at) => source(indices, at) ?? one);
  const number = `${indices.length} feature${indices.length === 1 ? "" : "s"}`;
  return `No payload; ${number}: ${some.join(", ")}${indices.length > SOME ? ", …" : ""}`;
}

// The payload of an item in one line, without its pictures and without what its figure says already.
export function summary(item, view) {
  const said = drawnAs(item, view) === "text" ? wordsField(item) : undefined;
  const { payload } = item;
  return Object.entries(payload || {})
    .filter(([name, value]) => name !== said && !(typeof value === "string" && PICTURE.test(value)))
    .map(
      ([name, value]) =>
        `${name}: ${typeof value === "number" ? number(payload, name) : cut(typeof value === "string" ? value : write(value), 80)}`,
    )
    .join(", ");
}

// Integers with all their digits.
const number = (payload, name) =>
  Number.isInteger(payload[name]) ? (source(payload, name) ?? String(payload[name])) : short(payload[name]);

export const cut = (text, most) => (text.length > most ? `${text.slice(0, most)} …` : text);
