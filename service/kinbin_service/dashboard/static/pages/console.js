// Any request of the API, its answer, and the same as curl and Python.
import { ask, collectionPath, server, timed } from "../api.js";
import { exampleQuery, firstId } from "../examples.js";
import { field, h, replace, say, select } from "../dom.js";
import { said, saidQuietly } from "../asking.js";
import { indented, read } from "../json.js";
import { snippets } from "../snippets.js";

// The path that was typed, from this server's root on, as the snippets and the request have it; Error for an address elsewhere.
function pathOf(typed) {
  const given = typed.trim();
  const path = given.startsWith(`${server()}/`) ? given.slice(server().length) : given;
  if (/^([a-z0-9][a-z0-9+.-]*:|[\\/]{2})/i.test(path))
    throw new Error(`The console asks this server alone, ${server()}: write a path of it, as /v1/collections.`);
  return path.startsWith("/") ? path : `/${path}`;
}

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
      replace(same, snippets(method.value, pathOf(path.value), given(), true));
    } catch (error) {
      replace(same, saidQuietly(error));
    }
  };
  const send = async (event) => {
    event.preventDefault();
    try {
      const asked = pathOf(path.value);
      given();
      if (method.value === "DELETE" && !confirm(`Send DELETE ${asked}?`)) return;
      const text = body.value.trim() && method.value !== "GET" ? body.value : undefined;
      const answer = await timed(method.value, asked, text, { signal, text: true });
      replace(
        result,
        h("p", { class: answer.status < 400 ? "good" : "bad" }, `${answer.status}, ${answer.milliseconds.toFixed(0)} ms`),
        h("pre", { tabindex: 0, role: "region", "aria-label": "Answer" }, pretty(answer.content)),
      );
      say(`Answered with ${answer.status}.`);
    } catch (error) {
      if (!signal.aborted) replace(result, said(error));
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
