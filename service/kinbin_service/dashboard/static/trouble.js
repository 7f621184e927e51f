// What a failed request says, for people.
import { Problem } from "./api.js";
import { h } from "./dom.js";

// A route that this server lacks is said as that.
export function trouble(error) {
  if (!(error instanceof Problem)) return h("p", { class: "trouble", role: "alert" }, `The server was not reached: ${error.message}`);
  if (error.missingRoute) {
    return h(
      "p",
      { class: "trouble missing", role: "alert" },
      "This server does not have this route (it answered ",
      h("b", {}, error.status),
      "). A newer version of Kinbin may.",
    );
  }
  return h(
    "div",
    { class: "trouble", role: "alert" },
    h("p", {}, h("b", {}, `${error.status} ${error.code}`), ` ${error.message}`),
    places(error),
  );
}

// Where in the body what is wrong. What the message says already is not said again, but its place is, unless it is the whole body.
function places({ message, errors }) {
  const told = new Map();
  for (const { pointer, detail } of errors) {
    const more = message.startsWith(detail.replace(/…$/, "")) ? "" : ` ${detail}`;
    if (more || pointer !== "#") told.set(pointer + more, h("li", {}, h("code", {}, pointer), more));
  }
  return told.size ? h("ul", {}, [...told.values()]) : null;
}
