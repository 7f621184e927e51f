// Any request of the API, its answer, and the same as curl and Python.
import { ask, collectionPath, timed } from "../api.js";
import { exampleQuery, firstId } from "../examples.js";
import { field, h, replace, say, select } from "../dom.js";
import { indented, read } from "../json.js";
import { snippets } from "../snippets.js";

export async function show({ holder, name, info, signal }) {
  const example = name ? JSON.stringify(exampleQuery(info, await firstId({ name, signal })), null, 1) : "";
  const method = select(["GET", "POST", "PUT", "DELETE"], name ? "POST" : "GET");
  const path = h("input", {
    type: "text",
    required: true,
    spellcheck: "false",
    value: name ? collectionPath(name, "query") : "/v1/collections",
    list: "routes",
  });
  const where = field("Path", path);
  where.classList.add("wide");
  const routes = h("datalist", { id: "routes" });
  const body = h("textarea", { rows: 9, class: "code", spellcheck: "false", value: example });
  const result = h("div", {});
  const same = h("div", {});
  const given = () => (body.value.trim() && method.value !== "GET" ? read(body.value) : undefined);
  const shown = () => {
    try {
      replace(same, snippets(method.value, path.value, given(), true));
    } catch (error) {
      replace(same, h("p", { class: "trouble" }, `The body is no JSON: ${error.message}`));
    }
  };
  const send = async (event) => {
    event.preventDefault();
    if (method.value === "DELETE" && !confirm(`Send DELETE ${path.value}?`)) return;
    try {
      given();
      const text = body.value.trim() && method.value !== "GET" ? body.value : undefined;
      const answer = await timed(method.value, path.value, text, { signal, text: true });
      replace(
        result,
        h("p", { class: answer.status < 400 ? "good" : "bad" }, `${answer.status}, ${answer.milliseconds.toFixed(0)} ms`),
        h("pre", { tabindex: 0, role: "region", "aria-label": "Answer" }, pretty(answer.content)),
      );
      say(`Answered with ${answer.status}.`);
    } catch (error) {
      if (!signal.aborted) replace(result, h("p", { class: "trouble", role: "alert" }, error.message));
    }
  };
  for (const control of [method, path, body]) control.addEventListener("input", shown);
  replace(
    holder,
    h(
      "form",
      { class: "panel", onsubmit: send },
      h("div", { class: "row fields" }, field("Method", method), where, routes),
      field("Body (JSON)", body),
      h("button", { class: "primary" }, "Send"),
    ),
    result,
    same,
  );
  shown();
  const { paths } = await ask("GET", "/openapi.json", undefined, { signal });
  replace(
    routes,
    Object.keys(paths).map((one) => h("option", { value: name ? one.replace("{name}", encodeURIComponent(name)) : one })),
  );
}

const MOST = 200000;

function pretty(text) {
  let shown = text;
  try {
    JSON.parse(text);
    shown = indented(text);
  } catch {
    // Lines, metrics and files stay as they are.
  }
  return shown.length > MOST ? `${shown.slice(0, MOST)}\n… (${shown.length - MOST} more characters)` : shown;
}
