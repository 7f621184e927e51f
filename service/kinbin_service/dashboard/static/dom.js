// Elements from plain calls: no text is ever read as HTML.

// h("a", {href: "#/", class: "x", onclick: f}, "text", element): null and false children are left out.
export function h(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name === "value" || name === "checked" || name === "disabled") made[name] = value;
    else made.setAttribute(name, value === true ? "" : String(value));
  }
  append(made, children);
  return made;
}

export function append(parent, children) {
  for (const child of children.flat(Infinity)) {
    if (child !== null && child !== undefined && child !== false) parent.append(child);
  }
}

export function replace(parent, ...children) {
  parent.replaceChildren();
  append(parent, children);
}

let numbered = 0;

// A control below its label; the control is any element that has an id or gets one.
export function field(label, control, hint) {
  control.id ||= `control-${++numbered}`;
  const told = hint ? h("small", { id: `${control.id}-hint` }, hint) : null;
  if (told) control.setAttribute("aria-describedby", told.id);
  return h("div", { class: "field" }, h("label", { for: control.id }, label), control, told);
}

export function select(choices, chosen, attributes = {}) {
  const made = h(
    "select",
    attributes,
    choices.map((one) => {
      const [value, text] = Array.isArray(one) ? one : [one, one];
      return h("option", { value, selected: value === chosen }, text);
    }),
  );
  return made;
}

// A table that scrolls sideways by itself; cells are texts, numbers or elements.
export function table(caption, heads, rows) {
  const body = rows.map((cells) =>
    h(
      "tr",
      {},
      cells.map((cell, column) => {
        const numeric = typeof cell === "number" || (typeof cell === "string" && /^[-−]?[\d,.]+( ?(%|[kMG]?i?B|ms|µs))?$/.test(cell));
        const attributes = { "data-head": heads[column], class: numeric ? "number" : null };
        return column === 0 ? h("th", { scope: "row", ...attributes }, cell) : h("td", attributes, cell ?? "–");
      }),
    ),
  );
  const hint = h("p", { class: "hint more", hidden: true, "aria-hidden": true }, "There are more columns: scroll sideways →");
  const holder = h(
    "div",
    { class: "scrolls", tabindex: 0, role: "region", "aria-label": caption },
    hint,
    h(
      "table",
      {},
      h("caption", {}, caption),
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          heads.map((head) => h("th", { scope: "col" }, head)),
        ),
      ),
      h("tbody", {}, body),
    ),
  );
  new ResizeObserver(() => {
    hint.hidden = holder.scrollWidth <= holder.clientWidth + 1;
  }).observe(holder);
  return holder;
}

let telling;

// Says something to people who see the page and to those who hear it.
export function say(text) {
  const status = document.getElementById("status");
  status.textContent = text;
  clearTimeout(telling);
  telling = setTimeout(() => {
    status.textContent = "";
  }, 6000);
}

// Closes the dialogs of a page that is left.
export function closeDialogs() {
  for (const one of document.querySelectorAll("dialog:not(.stays)")) one.close();
}

// Resolves to what `submit` makes of the dialog, or to null when it is left, or goes with its page unless it `stays`.
export function dialog(title, content, { action, danger = false, stays = false, submit = () => true }) {
  return new Promise((resolve) => {
    const trouble = h("p", { class: "trouble", role: "alert" });
    const heading = h("h2", { id: `dialog-${++numbered}` }, title);
    const shown = h(
      "dialog",
      { "aria-labelledby": heading.id, class: stays ? "stays" : null },
      h(
        "form",
        {
          onsubmit: async (event) => {
            event.preventDefault();
            const button = shown.querySelector("button:not([type])");
            if (button.disabled) return;
            // A disabled button loses the focus.
            const focused = document.activeElement;
            button.disabled = true;
            try {
              const made = await submit();
              shown.close();
              resolve(made);
            } catch (error) {
              trouble.textContent = error.message;
            } finally {
              button.disabled = false;
              focused.focus();
            }
          },
        },
        heading,
        content,
        trouble,
        h(
          "div",
          { class: "row" },
          h("button", { class: danger ? "danger" : "primary" }, action),
          h("button", { type: "button", onclick: () => shown.close() }, "Cancel"),
        ),
      ),
    );
    shown.addEventListener("close", () => {
      shown.remove();
      resolve(null);
    });
    document.body.append(shown);
    shown.showModal();
  });
}

export const integer = (value) => (value === null || value === undefined ? "–" : Math.round(value).toLocaleString("en"));

// A text that others begin small, as a sentence.
export const sentence = (text) => text && `${text[0].toUpperCase()}${text.slice(1)}.`;

// Of bands; requests and answers call their number "rows".
export const hashes = (count) => (count === 1 ? "hash" : "hashes");

// Cut, not rounded: 100 % is said of a whole only.
export function percent(share) {
  if (share === null || share === undefined) return "–";
  return share === 0 || share === 1 ? `${100 * share} %` : `${(Math.floor(share * 1000) / 10).toFixed(1)} %`;
}

export const short = (value) =>
  value === null || value === undefined ? "–" : Number(value.toPrecision(4)).toLocaleString("en", { maximumFractionDigits: 6 });

export function bytes(count) {
  if (count === null || count === undefined) return "–";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  const unit = Math.min(units.length - 1, Math.floor(Math.log2(Math.max(1, count)) / 10));
  return `${(count / 1024 ** unit).toFixed(unit ? 1 : 0)} ${units[unit]}`;
}
