"use strict";
// Sends the requests of the forms on the page to the server that the page came from, and shows its answers.

const LONGEST = 20000;

for (const form of document.querySelectorAll("form[data-path]")) {
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    send(form);
  });
  const examples = form.querySelector("select");
  examples?.addEventListener("change", () => {
    form.elements.body.value = examples.value;
  });
}

async function send(form) {
  const { method, path } = form.dataset;
  const shown = form.querySelector("output");
  const named = [...form.querySelectorAll("input")];
  const address = named.reduce((made, input) => made.replace(`{${input.name}}`, () => encodeURIComponent(input.value)), path);
  if (method === "DELETE" && !confirm(`${method} ${address}?`)) return;
  const headers = {};
  const key = document.getElementById("key").value;
  if (key) headers.authorization = `Bearer ${key}`;
  const body = form.elements.body?.value;
  if (body !== undefined) headers["content-type"] = "application/json";
  shown.textContent = "…";
  const began = performance.now();
  try {
    // Relative to the page, which a proxy may have put below a path of its own.
    const answer = await fetch(address.slice(1), { method, headers, body });
    const text = await answer.text();
    shown.textContent = `${answer.status} ${answer.statusText}, ${Math.round(performance.now() - began)} ms\n\n${indented(text)}`;
  } catch (problem) {
    shown.textContent = `no answer: ${problem.message}`;
  }
}

// JSON with line breaks. The text is not parsed, as numbers past 2^53 (ids of features) would come out changed.
function indented(text) {
  let out = "";
  let depth = 0;
  for (const [token] of text.matchAll(/"(?:[^"\\]|\\.)*"|\[[-\d.,eE\s]*\]|[[\]{},:]|[^"[\]{},:\s]+/g)) {
    if (out.length > LONGEST) return `${out}\n… (${text.length.toLocaleString()} characters in all)`;
    if ("]}".includes(token)) out += `\n${"  ".repeat(--depth)}`;
    out += token === ":" ? ": " : token;
    if ("[{".includes(token)) depth += 1;
    if ("[{,".includes(token)) out += `\n${"  ".repeat(depth)}`;
  }
  return out;
}
