/** The built package in Chromium: a page imports it as it is, and asks the live service by the origin that the page came from. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { createServer, request as forward, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { test } from "node:test";
import { KEY, SERVICE } from "./support.js";
import type { Told } from "./page.js";

const CHROMIUM = ["chromium", "chromium-browser", "google-chrome"]
  .flatMap((name) => (process.env.PATH ?? "").split(delimiter).map((folder) => join(folder, name)))
  .find((path) => existsSync(path));

const PAGE = `<!doctype html><title>kinbin-client</title>
<script type="importmap">{ "imports": { "kinbin-client": "/client/index.js" } }</script>
<script type="module" src="/page.js"></script>`;

/** Serves the page and the package, and passes everything else on to the service, as a reverse proxy does. */
function answer(request: IncomingMessage, response: ServerResponse, told: (told: string) => void): void {
  const path = (request.url ?? "").split("?", 1)[0] ?? "";
  const file = /^\/client\/\w+\.js$/.test(path) ? `../dist/${path.slice("/client/".length)}` : path === "/page.js" ? "./page.js" : null;
  if (path === "/") response.writeHead(200, { "content-type": "text/html" }).end(PAGE);
  else if (path === "/favicon.ico") response.writeHead(404).end();
  else if (path.startsWith("/hang-up")) response.socket?.destroy();
  else if (path.startsWith("/redirect")) response.writeHead(302, { location: "http://127.0.0.1:1/" }).end();
  else if (path.startsWith("/silence")) request.resume();
  else if (path === "/told") {
    const parts: Buffer[] = [];
    request.on("data", (part: Buffer) => parts.push(part)).on("end", () => told(Buffer.concat(parts).toString()));
    response.end();
  } else if (file !== null) {
    void readFile(new URL(file, import.meta.url)).then((content) =>
      response.writeHead(200, { "content-type": "text/javascript" }).end(content),
    );
  } else {
    const { method = "GET", url = "", headers } = request;
    const passed = forward(`${SERVICE}${url}`, { method, headers: { ...headers, host: new URL(SERVICE).host } }, (reply) => {
      response.writeHead(reply.statusCode ?? 502, reply.headers);
      reply.pipe(response);
    });
    request.pipe(passed);
  }
}

test(
  "a page in Chromium adds, asks, iterates, and meets errors like a program in Node",
  { skip: CHROMIUM === undefined && "no chromium is installed" },
  async () => {
    assert.ok(CHROMIUM);
    let told: (text: string) => void = () => undefined;
    const result = new Promise<string>((resolve) => (told = resolve));
    const server = createServer((request, response) => answer(request, response, told));
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const address = `http://127.0.0.1:${(server.address() as AddressInfo).port}/?key=${KEY ?? ""}`;
    const profile = await mkdtemp(join(tmpdir(), "kinbin-page-"));
    const options = [
      "--headless=new",
      "--no-sandbox",
      "--disable-gpu",
      "--disable-dev-shm-usage",
      "--no-first-run",
      `--user-data-dir=${profile}`,
    ];
    const browser = spawn(CHROMIUM, [...options, address], { stdio: ["ignore", "ignore", "pipe"] });
    const ended = new Promise<never>((_, reject) => {
      let said = "";
      browser.stderr.on("data", (part: Buffer) => (said = (said + part.toString()).slice(-2_000)));
      browser.on("exit", (code) => reject(new Error(`Chromium ended with ${code}: ${said}`)));
      setTimeout(() => reject(new Error(`the page did not come to its end: ${said}`)), 60_000).unref();
    });
    try {
      const checks = JSON.parse(await Promise.race([result, ended])) as Told[];
      assert.deepEqual(
        checks.filter(({ error }) => error !== null),
        [],
      );
      assert.equal(checks.length, 6);
    } finally {
      ended.catch(() => undefined);
      const gone = new Promise((resolve) => browser.once("exit", resolve));
      if (browser.exitCode === null && browser.kill("SIGKILL")) await gone;
      server.closeAllConnections();
      server.close();
      await rm(profile, { recursive: true, force: true, maxRetries: 5 });
    }
  },
);
