// Builds `index.js`, an ES module that imports React alone, and `index.d.ts`, in the folder that is given or in `dist`.
// The types of `@pilotis/client` are those of `clients/js`: build that first.
import { execFileSync } from "node:child_process";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { build } from "esbuild";

const { version } = JSON.parse(readFileSync("package.json", "utf8"));
const folder = process.argv[2] ?? "dist";
mkdirSync(folder, { recursive: true });
await build({
  entryPoints: ["src/index.ts"],
  outfile: `${folder}/index.js`,
  bundle: true,
  external: ["react"],
  format: "esm",
  target: "es2022",
  minify: true,
  legalComments: "none",
  banner: { js: `"use client"; /* @pilotis/react ${version}, MIT */` },
});
execFileSync("node_modules/.bin/tsc", ["-p", ".", "--noEmit", "false", "--declaration", "--emitDeclarationOnly", "--outDir", folder], { stdio: "inherit" });
const types = `${folder}/index.d.ts`;
writeFileSync(types, readFileSync(types, "utf8").replaceAll("./store.ts", "./store.js"));
