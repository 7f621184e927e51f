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
    error.errors.length
      ? h(
          "ul",
          {},
          error.errors.map((one) => h("li", {}, h("code", {}, one.pointer), ` ${one.detail}`)),
        )
      : null,
  );
}
