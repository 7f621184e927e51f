/** What the tests share: the live service, and a server of theirs that answers as it is told. */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { after } from "node:test";
import { Client, type ClientOptions } from "kinbin-client";

/** The live service, which whoever starts the tests has started. */
export const SERVICE = process.env.SERVICE_URL ?? "http://127.0.0.1:8080";
export const KEY = process.env.SERVICE_KEY;

/** A client of the live service. */
export function live<P extends object = Record<string, unknown>>(options: ClientOptions = {}): Client<P> {
  return new Client<P>(SERVICE, { apiKey: KEY, ...options });
}

export interface Received {
  method: string;
  path: string;
  headers: IncomingMessage["headers"];
  body: string;
}

/** Answers one request. */
export type Behaviour = (response: ServerResponse, request: Received) => void;

/** A server that answers the n-th request by the n-th behaviour, and all later ones by the last. */
export interface Scripted {
  url: string;
  requests: Received[];
  /** A client of it that does not wait long between attempts. */
  client: (options?: ClientOptions) => Client;
}

/** Start one; it ends with the test file. */
export async function scripted(...behaviours: Behaviour[]): Promise<Scripted> {
  const requests: Received[] = [];
  const server = createServer((request, response) => {
    const parts: Buffer[] = [];
    request.on("data", (part: Buffer) => parts.push(part));
    request.on("end", () => {
      const received = {
        method: request.method ?? "",
        path: request.url ?? "",
        headers: request.headers,
        body: Buffer.concat(parts).toString(),
      };
      requests.push(received);
      behaviours[Math.min(requests.length, behaviours.length) - 1]?.(response, received);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  after(() => {
    server.closeAllConnections();
    server.close();
  });
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return { url, requests, client: (options = {}) => new Client(url, { retry: { firstPause: 1 }, ...options }) };
}

/** Answers JSON. */
export function json(value: unknown, status = 200, headers: Record<string, string> = {}): Behaviour {
  return (response) => response.writeHead(status, { "content-type": "application/json", ...headers }).end(JSON.stringify(value));
}

/** Answers a problem document. */
export function problem(status: number, code: string, more: object = {}, headers: Record<string, string> = {}): Behaviour {
  const document = { type: "about:blank", title: code, status, code, detail: `because of ${code}`, errors: [], limit: null, ...more };
  return json(document, status, { "content-type": "application/problem+json", "x-request-id": "r1", ...headers });
}

/** Ends the connection without an answer. */
export const hangUp: Behaviour = (response) => response.socket?.destroy();

/** Never answers. */
export const silence: Behaviour = () => undefined;

export const ADDED = { indexed: 1, updated: 0, unchanged: 0, count: 1, took_ms: 1 };
export const FOUND = {
  results: [],
  recall_lower_bound: 1,
  mode: "exact",
  candidates: 0,
  verified: 0,
  truncated: [],
  steps: [],
  took_ms: 1,
};

/** What a promise is rejected with. */
export async function rejected<E extends Error>(promise: Promise<unknown>, kind: abstract new (...given: never[]) => E): Promise<E> {
  const error: unknown = await promise.then(
    () => new Error("it was not rejected"),
    (reason: unknown) => reason,
  );
  if (error instanceof kind) return error;
  throw error;
}

/** All that is iterated over. */
export async function all<T>(values: AsyncIterable<T>): Promise<T[]> {
  const found: T[] = [];
  for await (const value of values) found.push(value);
  return found;
}
