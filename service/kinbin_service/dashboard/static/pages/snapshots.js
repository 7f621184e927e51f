// Snapshots of a collection: made, verified, downloaded, restored and deleted.
import { address, ask, collectionPath, hasKey } from "../api.js";
import { trouble } from "../trouble.js";
import { bytes, dialog, field, h, integer, replace, say, table } from "../dom.js";
import { curl, snippets } from "../snippets.js";

export async function show({ holder, name, signal }) {
  const page = { name, signal, list: h("div", { "aria-live": "polite" }) };
  const button = h(
    "button",
    {
      class: "primary",
      type: "button",
      onclick: async () => {
        button.disabled = true;
        say("A snapshot is being made …");
        await doing(
          page,
          () => ask("POST", collectionPath(name, "snapshots"), {}),
          (made) => `Snapshot ${made.id} is on disk.`,
        );
        button.disabled = false;
      },
    },
    "Make a snapshot",
  );
  replace(
    holder,
    h("p", {}, "A snapshot is the collection as it is at one moment, in one file; others read and write meanwhile."),
    button,
    page.list,
  );
  await draw(page);
}

async function doing(page, work, told) {
  try {
    const made = await work();
    say(told(made));
    await draw(page);
  } catch (error) {
    page.list.prepend(trouble(error));
  }
}

async function draw(page) {
  const path = collectionPath(page.name, "snapshots");
  const { snapshots } = await ask("GET", path, undefined, { signal: page.signal });
  const rows = [...snapshots].reverse().map((one) => [one.id, one.created, integer(one.items), bytes(one.bytes), actions(page, one)]);
  replace(
    page.list,
    rows.length ? table("Snapshots, the newest first", ["Id", "Made", "Items", "Bytes", ""], rows) : h("p", {}, "There are none yet."),
    snippets("GET", path),
  );
}

function actions(page, one) {
  const path = collectionPath(page.name, `snapshots/${encodeURIComponent(one.id)}`);
  const act = (text, run) => h("button", { type: "button", "aria-label": `${text} ${one.id}`, onclick: run }, text);
  return h(
    "div",
    { class: "row" },
    // With a key the file is not fetched through the page: all of it would have to fit into its memory.
    hasKey()
      ? act("Download", () => dialog("Download", h("pre", { tabindex: 0 }, `${curl("GET", path)} -O`), { action: "Done" }))
      : h("a", { href: address(path), download: `${page.name}-${one.id}.snapshot` }, "Download"),
    act("Verify", () =>
      doing(
        page,
        () => ask("POST", `${path}/verify`, {}),
        (told) => (told.ok ? `All ${integer(told.items)} items are proved.` : told.problems.join("; ")),
      ),
    ),
    act("Restore", () => restore(page, one)),
    act("Delete", async () => {
      const done = await dialog(`Delete snapshot ${one.id}?`, h("p", {}, "The file is removed; the collection stays."), {
        action: "Delete",
        danger: true,
        submit: () => ask("DELETE", path),
      });
      if (done)
        await doing(
          page,
          async () => null,
          () => `Snapshot ${one.id} is deleted.`,
        );
    }),
  );
}

async function restore(page, one) {
  const input = h("input", { type: "text", required: true, value: `${page.name}-restored` });
  const made = await dialog("Restore", [h("p", {}, "Makes a new collection of the snapshot."), field("Its name", input)], {
    action: "Restore",
    submit: async () => {
      await ask("POST", "/v1/restore", { collection: page.name, snapshot: one.id, name: input.value });
      return input.value;
    },
  });
  if (made) say(`The collection ${made} is there.`);
}
