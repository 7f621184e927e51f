// JSON with the digits that it was written with: JSON.parse makes 9007199254740992 of 9007199254740993, and 1 of 1.0.

const TOKEN = /"[^"\\]*(?:\\.[^"\\]*)*"|[[\]{}:,]|[^\s[\]{}:,"]+/g;
const LONG = /(?:^|[[:,\s])-?\d{16,}(?:$|[\s,\]}])/;
const noted = new WeakMap();

// The value of a text. How numbers were written that JavaScript writes otherwise is noted beside it, where the browser tells.
export function read(text) {
  return JSON.parse(text, function (key, value, context) {
    if (typeof value === "number" && context?.source !== undefined && context.source !== String(value)) {
      if (!noted.has(this)) noted.set(this, new Map());
      noted.get(this).set(key, context.source);
    }
    return value;
  });
}

// The same for an answer. Only one with long integers takes the time.
export const readAnswer = (text) => (LONG.test(text) ? read(text) : JSON.parse(text));

// How a number of a value that was read was written; undefined: as JavaScript writes it.
export const source = (holder, key) => noted.get(holder)?.get(String(key));

// The text of a value, its numbers as they were read.
export function write(value) {
  return JSON.stringify(value, function (key, one) {
    const digits = typeof one === "number" && JSON.rawJSON ? source(this, key) : undefined;
    return digits === undefined ? one : JSON.rawJSON(digits);
  });
}

// Valid JSON with a line for each value; nothing but the space between tokens changes.
export function indented(text) {
  const tokens = text.match(TOKEN);
  const made = [];
  let depth = 0;
  const line = () => made.push("\n", "  ".repeat(depth));
  tokens.forEach((token, at) => {
    const opens = token === "{" || token === "[";
    const closes = token === "}" || token === "]";
    const empty = closes && "{[".includes(tokens[at - 1]);
    if (closes) depth -= 1;
    if (closes && !empty) line();
    made.push(token === ":" ? ": " : token);
    if (opens) depth += 1;
    if (token === "," || (opens && !"}]".includes(tokens[at + 1]))) line();
  });
  return made.join("");
}

// The texts of what a valid object or list holds, by name or by place.
export function pieces(text) {
  const found = new Map();
  let depth = 0;
  let begin = 0;
  let name = null;
  let place = 0;
  for (const { 0: token, index } of text.matchAll(TOKEN)) {
    const closes = token === "}" || token === "]";
    if (closes) depth -= 1;
    if (depth === 1 && token === ":") {
      name = JSON.parse(text.slice(begin, index));
      begin = index + 1;
    } else if (depth === (closes ? 0 : 1) && (closes || token === ",")) {
      const piece = text.slice(begin, index).trim();
      if (piece) found.set(name ?? place, piece);
      place += 1;
      name = null;
      begin = index + 1;
    }
    if (token === "{" || token === "[") {
      if (depth === 0) begin = index + 1;
      depth += 1;
    }
  }
  return found;
}
