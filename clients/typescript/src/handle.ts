/** What every handle holds. */
import { send } from "./send.js";
import { parsed, type Reply } from "./replies.js";
import type { Request, Sender } from "./transport.js";
import type { CallOptions } from "./types.js";

/** Where adds and queries go: the short routes of the default collection, or those of a named one. */
export interface Scope {
  readonly index: string;
  readonly query: string;
}

export abstract class Handle {
  /** @internal */
  protected readonly sender: Sender;

  /** @internal */
  constructor(sender: Sender) {
    this.sender = sender;
  }

  /** Send a request whose answer is a JSON object with these fields. */
  protected ask<T>(request: Request, call: CallOptions, ...required: (keyof T & string)[]): Promise<T> {
    return this.do(request, (reply) => parsed<T>(reply, ...required), call);
  }

  /** Send a request, and parse its answer. */
  protected do<T>(request: Request, parse: (reply: Reply) => T, call: CallOptions): Promise<T> {
    return send(this.sender, request, parse, call);
  }
}
