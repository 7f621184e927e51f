// Compiles src into dist, from nothing, and puts the project's licence into the package.
import { spawnSync } from "node:child_process";
import { copyFile, rm } from "node:fs/promises";
import { fileURLToPath } from "node:url";

const root = new URL("../", import.meta.url);
await rm(new URL("dist", root), { recursive: true, force: true });
const tsc = fileURLToPath(new URL("node_modules/typescript/bin/tsc", root));
const compiled = spawnSync(process.execPath, [tsc, "-p", fileURLToPath(root)], { stdio: "inherit" });
if (compiled.status !== 0) process.exit(1);
await copyFile(new URL("../../LICENSE", root), new URL("LICENSE", root));
