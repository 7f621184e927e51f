// The items of a collection, page by page: filtered, opened, with payloads edited, and deleted.
import { ask, collectionPath, timed } from "../api.js";
import { figure, summary } from "../answers.js";
import { trouble } from "../trouble.js";
import { dialog, field, h, integer, replace, say, select } from "../dom.js";
import { indented, pieces, read } from "../json.js";
import { snippets } from "../snippets.js";

const LIMIT = 50;

export async function show({ holder, name, info, signal }) {
  const filter = h("input", { type: "text", placeholder: '{"year": {"$gte": 2020}}', spellcheck: "false" });
  const id = h("input", { type: "text", spellcheck: "false", autocomplete: "off" });
  const list = h("div", { "aria-live": "polite" });
  const page = { name, info, signal, list, after: [null], filter: () => (filter.value.trim() ? read(filter.value) : null) };
  page.draw = () =>
    draw(page).catch((error) => {
      if (!signal.aborted)
        replace(
          list,
          error instanceof SyntaxError
            ? h("p", { class: "trouble", role: "alert" }, `The filter is no JSON: ${error.message}`)
            : trouble(error),
        );
    });
  const again = (event) => {
    event.preventDefault();
    page.id = id.value;
    page.after = [null];
    page.draw();
  };
  replace(
    holder,
    h(
      "form",
      { class: "panel row fields", onsubmit: again },
      field("Filter (JSON)", filter),
      field("Or one id", id),
      h("button", { class: "primary" }, "Show"),
    ),
    list,
  );
  await page.draw();
}

async function draw(page) {
  const { name, signal, list } = page;
  const include = page.info.items === "images" ? ["payload"] : ["payload", "vector"];
  const [path, body] = page.id
    ? [collectionPath(name, "get"), { ids: [page.id], include }]
    : [collectionPath(name, "scroll"), { after: page.after.at(-1), limit: LIMIT, filter: page.filter(), include }];
  const [{ content: found, received }, total] = await Promise.all([
    timed("POST", path, body, { signal }),
    page.id ? null : ask("POST", collectionPath(name, "count"), { filter: body.filter }, { signal }),
  ]);
  const rows = await Promise.all(found.items.map((item, place) => row(page, item, () => payloadOf(received, place))));
  const turn = (text, disabled, change) =>
    h(
      "button",
      {
        type: "button",
        disabled,
        onclick: () => {
          change();
          page.draw();
        },
      },
      text,
    );
  replace(
    list,
    h(
      "p",
      { class: "hint" },
      page.id ? (rows.length ? "" : "There is no such item.") : `${integer(total.count)} items; page ${page.after.length}.`,
    ),
    h("ul", { class: "items" }, rows),
    page.id
      ? null
      : h(
          "div",
          { class: "row" },
          turn("Previous page", page.after.length < 2, () => page.after.pop()),
          turn("Next page", found.next === null, () => page.after.push(found.next)),
        ),
    snippets("POST", path, body),
  );
}

// The text of a payload of an answer, as it came.
const payloadOf = (received, place) => pieces(pieces(pieces(received).get("items")).get(place)).get("payload") ?? "null";

async function row(page, item, payload) {
  return h(
    "li",
    { class: "item" },
    await figure(item, "auto"),
    h("div", { class: "told" }, h("b", { class: "id" }, item.id), h("small", {}, summary(item, "auto"))),
    h(
      "div",
      { class: "row" },
      h(
        "a",
        { href: `#/c/${encodeURIComponent(page.name)}/query?id=${encodeURIComponent(item.id)}`, "aria-label": `Near to it: ${item.id}` },
        "Near to it",
      ),
      h("button", { type: "button", "aria-label": `Edit payload of ${item.id}`, onclick: () => edit(page, item, payload()) }, "Edit payload"),
      h("button", { type: "button", "aria-label": `Delete ${item.id}`, onclick: () => remove(page, item) }, "Delete"),
    ),
  );
}

async function edit(page, item, payload) {
  const text = h("textarea", { rows: 12, class: "code", spellcheck: "false", value: indented(payload) });
  const mode = select(
    [
      ["replace", "replaces the payload"],
      ["merge", "is merged into it (null removes a field)"],
    ],
    "replace",
  );
  const done = await dialog(`Payload of ${item.id}`, [field("JSON", text), field("This", mode)], {
    action: "Save",
    submit: async () => {
      const typed = JSON.parse(text.value);
      if (Array.isArray(typed) || (typed !== null && typeof typed !== "object"))
        throw new Error('A payload is a JSON object, as {"year": 2020}, or null.');
      // What was typed is sent, digit for digit.
      const body = `{"items": [{"id": ${JSON.stringify(item.id)}, "payload": ${text.value}}], "mode": ${JSON.stringify(mode.value)}}`;
      await ask("POST", collectionPath(page.name, "payload"), body);
      return true;
    },
  });
  if (!done) return;
  say(`The payload of ${item.id} is stored.`);
  await page.draw();
}

async function remove(page, item) {
  const done = await dialog(`Delete ${item.id}?`, h("p", {}, "It is gone for everybody, and cannot be brought back."), {
    action: "Delete",
    danger: true,
    submit: () => ask("POST", collectionPath(page.name, "delete"), { ids: [item.id] }),
  });
  if (!done) return;
  say(done.deleted ? `${item.id} is deleted.` : `${item.id} was gone already.`);
  await page.draw();
}
