// Builds `pilotis.js`, one minified ES module, `pilotis.d.ts`, the types that it exports, and `account.js`, the script of a
// page's sign-in, in the folder that is given or in `dist`. The server's copy is built by `npm run serve`.
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { build } from "esbuild";

const { version } = JSON.parse(readFileSync("package.json", "utf8"));
const folder = process.argv[2] ?? "dist";
mkdirSync(folder, { recursive: true });
// Names that only the client itself uses, and neither JSON nor the browser has: they are shortened.
const OWN_NAMES = `aborts adopt apply asked attempt authorize changed clock compare controller current ears ended entering exchange
  addDevice devices expiry failures finish follow follows forget former fresh group heard hears hold http isCallers isConnected isLate isLoaded isOpen
  isOver isPlain isRead isReading isShown isStale joins leads led listed listener listeners lost named
  notice noticedAt opened others outer parsed parts placeIn post race readAll readAt readToken rejectedToken rejoin renew
  renewed renewing reopen sessions shares show skew slow sorts stopped stored tabs tell timer tokens told waiting want
  wasOpen watch withoutSort`;
await build({
  entryPoints: ["src/index.ts"],
  outfile: `${folder}/pilotis.js`,
  bundle: true,
  define: { VERSION: JSON.stringify(version) },
  format: "esm",
  target: "es2022",
  minify: true,
  mangleProps: new RegExp(`^(${OWN_NAMES.trim().split(/\s+/).join("|")})$`),
  legalComments: "none",
  banner: { js: `/* @pilotis/client ${version}, MIT */` },
});

await build({
  entryPoints: ["src/account.ts"],
  outfile: `${folder}/account.js`,
  bundle: true,
  format: "iife",
  target: "es2022",
  minify: true,
  charset: "utf8",
  legalComments: "none",
  banner: { js: `/* @pilotis/client ${version}, MIT */` },
});

// All types are in `types.ts`, which imports nothing; the functions of `index.ts` follow.
const declared = readFileSync("src/types.ts", "utf8");
if (new RegExp(`^ *(?:readonly )?(${OWN_NAMES.trim().split(/\s+/).join("|")})\\??[:(]`, "m").test(declared)) throw new Error("a name of OWN_NAMES is public");
if (/^import /m.test(declared)) throw new Error("src/types.ts must not import anything");
const functions = `
/** Makes the client of an app. \`App\` is what \`pilotis types\` writes; without it columns have any type. */
export declare function createClient<App extends AppTypes = AnyApp>(options: ClientOptions): Client<App>;
/** An update that adds a number to a column, whatever its value is by then. */
export declare function inc(by: number): Increment;
/** Whether a value is an \`ApiError\`, of one code if that is given. */
export declare function isApiError(value: unknown, code?: ErrorCode): value is ApiError;
/** Keeps a session in memory only. */
export declare function memoryStorage(): SessionStorage;
/** The version of this client. */
export declare const version: string;
`;
writeFileSync(`${folder}/pilotis.d.ts`, `// @pilotis/client ${version}, MIT\n${declared}${functions}`);

const { outputFiles } = await build({
  entryPoints: ["src/inside.ts"],
  bundle: true,
  write: false,
  format: "iife",
  globalName: "client",
  target: "es2022",
  minifySyntax: true,
  minifyWhitespace: true,
  legalComments: "none",
});
// Without a build of their own the server's functions have it in the text of their harness, and beside their types.
const server = process.argv[3];
if (server) {
  const harness = `${server}/functions/runtime/harness.ts`;
  const block = /(?<=^\/\/ <client>.*\n)[^]*?(?=^\/\/ <\/client>)/m;
  writeFileSync(harness, readFileSync(harness, "utf8").replace(block, () => outputFiles[0].text));
  writeFileSync(`${server}/cli/templates/javascript/client.d.ts`, `// The client's types, for pilotis.d.ts; this file is not deployed.\n${declared}`);
} else {
  writeFileSync(`${folder}/inside.js`, outputFiles[0].text);
}
