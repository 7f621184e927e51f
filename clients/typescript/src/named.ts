/** What every handle of a named collection has. */
import { collectionPath } from "./requests.js";
import { Searchable } from "./searching.js";
import type { Sender } from "./transport.js";
import type { Payload } from "./types.js";

export abstract class Named<P extends object = Payload> extends Searchable<P> {
  /** @internal */
  protected readonly path: string;

  /** @internal */
  constructor(
    sender: Sender,
    readonly name: string,
  ) {
    const path = collectionPath(name);
    super(sender, { index: `${path}/index`, query: `${path}/query` });
    this.path = path;
  }
}
