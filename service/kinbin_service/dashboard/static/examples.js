// What a page begins with: a stored item, and a body of a query that works.
import { ask, collectionPath } from "./api.js";
import { thumbnail } from "./answers.js";

const FIRST = 24;

// Some id of the first so many; "" if there is none.
export async function someId({ name, signal }, most) {
  const { items } = await ask("POST", collectionPath(name, "scroll"), { limit: most, include: [] }, { signal });
  return items[Math.floor(Math.random() * items.length)]?.id ?? "";
}

// Of the first items the one whose picture has the most bytes, since a plain one shows little; without pictures the first.
// "" if there is none.
export async function firstId({ name, signal }) {
  const { items } = await ask("POST", collectionPath(name, "scroll"), { limit: FIRST, include: ["payload"] }, { signal });
  const size = ({ payload }) => thumbnail(payload)?.length ?? 0;
  return items.reduce((best, item) => (best === null || size(item) > size(best) ? item : best), null)?.id ?? "";
}

// A query by this id; "" as id: the example says that there is none.
export function exampleQuery(info, id) {
  const named = { id: id || "an id: the collection is empty" };
  return { ...named, ...(info.fields ? { fields: Object.keys(info.fields) } : {}), k: 10, include: ["payload"] };
}
