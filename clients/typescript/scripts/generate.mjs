// Writes src/openapi.ts, the types of service/openapi.json; with --check it only says whether they are those of today's file.
import { createHash } from "node:crypto";
import { readFile, writeFile } from "node:fs/promises";

const SOURCE = new URL("../../../service/openapi.json", import.meta.url);
const TARGET = new URL("../src/openapi.ts", import.meta.url);

const described = await readFile(SOURCE);
// The first line is all that is compared, so that the check needs nothing but a SHA-256.
const digest = createHash("sha256").update(described).digest("hex");
const head = `// Generated of service/openapi.json, SHA-256 ${digest}, by \`npm run generate\`.\n`;

if (process.argv.includes("--check")) {
  const found = await readFile(TARGET, "utf8").catch(() => "");
  if (!found.startsWith(head)) {
    console.error("src/openapi.ts is not made of today's service/openapi.json: make typescript, and look at the difference");
    process.exit(1);
  }
} else {
  const { default: openapi, astToString } = await import("openapi-typescript");
  // What has a default is left out of requests as one likes.
  const made = await openapi(JSON.parse(described), { defaultNonNullable: false, additionalProperties: false });
  await writeFile(TARGET, head + astToString(made));
}
