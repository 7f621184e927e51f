/** Snapshots that a service keeps: `Client.snapshots`. */
import { InvalidArgument, UnexpectedResponse } from "./errors.js";
import { Handle } from "./handle.js";
import { errorOf, type Reply } from "./replies.js";
import { checkedObject, collectionPath, post } from "./requests.js";
import { Sha256 } from "./sha256.js";
import type { Request } from "./transport.js";
import type { CallOptions, Schemas } from "./types.js";

/** A whole collection is read or written before there is an answer. */
export const LONG = 3_600_000;
/** Of a download: one that breaks off goes on with the part at hand. */
const PART_BYTES = 8 << 20;
const PART = /^bytes (\d+)-(\d+)\/(\d+)$/;

/** A snapshot that a service keeps: the `id` is among those of its collection, `sha256` that of the file. */
export type Snapshot = Schemas["SnapshotAnswer"];

export class Snapshots extends Handle {
  /** Make a snapshot of a collection while it is used. keep: so many of it stay, the newest; if it is left out, all. */
  async create(name: string, options: { keep?: number } & CallOptions = {}): Promise<Snapshot> {
    const { keep, ...call } = checkedObject(options, "the options");
    // Not sent again when it may have been done: there would be two of them.
    const request = post(`${collectionPath(name)}/snapshots`, { keep }, "if-not-done");
    return this.ask({ ...request, timeout: LONG }, call, "id", "sha256");
  }

  /** The snapshots of a collection, which need not be there any more, the oldest first. */
  async list(name: string, options: CallOptions = {}): Promise<Snapshot[]> {
    const request: Request = { method: "GET", path: `${collectionPath(name)}/snapshots` };
    return (await this.ask<Schemas["SnapshotsAnswer"]>(request, options, "snapshots")).snapshots;
  }

  /** Remove one; NotFound if it is not there. */
  async delete(name: string, id: string, options: CallOptions = {}): Promise<void> {
    await this.ask({ method: "DELETE", path: this.#path(name, id), repeat: "if-not-done" }, options);
  }

  /** Let the service read all of one, and prove every record. */
  async verify(name: string, id: string, options: CallOptions = {}): Promise<Schemas["VerifiedAnswer"]> {
    return this.ask({ method: "POST", path: `${this.#path(name, id)}/verify`, timeout: LONG }, options, "ok");
  }

  /**
   * The file of one, part by part, at most 8 MiB in memory. A part that breaks off is asked for again.
   *
   * UnexpectedResponse at the end if what arrived has another SHA-256 than the service tells of: it is no snapshot then.
   *
   * Usage: `await writeFile("photos.kinbin", client.snapshots.download("photos", id), { flag: "wx" })`
   */
  async *download(name: string, id: string, options: CallOptions = {}): AsyncGenerator<Uint8Array<ArrayBuffer>, void, undefined> {
    const digest = new Sha256();
    let told = "";
    for (let at = 0, size = 1; at < size;) {
      const headers = { range: `bytes=${at}-${at + PART_BYTES - 1}`, accept: "application/x-kinbin-snapshot" };
      const reply = await this.do({ method: "GET", path: this.#path(name, id), headers }, received, options);
      const [, from, , of] = PART.exec(reply.headers.get("content-range") ?? "") ?? [];
      const tag = (reply.headers.get("etag") ?? "").replaceAll('"', "");
      if (reply.status !== 206 || Number(from) !== at || reply.body.length === 0 || (told !== "" && tag !== told)) {
        throw new UnexpectedResponse("the service did not send the part of the snapshot that was asked for", reply.status);
      }
      digest.update(reply.body);
      yield reply.body;
      [at, size, told] = [at + reply.body.length, Number(of), tag];
    }
    if (digest.hex() !== told) throw new UnexpectedResponse("the snapshot that arrived has another SHA-256 than the service tells of", 200);
  }

  #path(name: string, id: string): string {
    if (typeof id !== "string" || id === "") {
      throw new InvalidArgument("the id of a snapshot is a string that is not empty", null, "bad_parameter");
    }
    return `${collectionPath(name)}/snapshots/${encodeURIComponent(id)}`;
  }
}

function received(reply: Reply): Reply {
  const error = errorOf(reply);
  if (error !== null) throw error;
  return reply;
}
