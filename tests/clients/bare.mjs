// Runs the client and the cases in a context that has what React Native has, and nothing else of the browser or of Node.js.
import { readFileSync } from "node:fs";
import { webcrypto } from "node:crypto";
import vm from "node:vm";

const context = vm.createContext({
  AbortController, Blob, clearTimeout, console, fetch, FormData, Headers, queueMicrotask, Response, setTimeout, atob, btoa,
  TextDecoder, TextEncoder, URL,
  process: { env: { GIVEN: process.env.GIVEN, CLIENT: "client" } },
  // The cases themselves name their members by it.
  caseId: () => webcrypto.randomUUID(),
});
vm.runInContext("globalThis.window = globalThis; globalThis.navigator = { product: 'ReactNative' };", context);
const modern = ["throwIfAborted"];
for (const name of modern) delete AbortSignal.prototype[name];
delete AbortSignal.timeout;
delete AbortSignal.any;

function moduleOf(file, change = (text) => text) {
  return new vm.SourceTextModule(change(readFileSync(file, "utf8")), { context, identifier: file, importModuleDynamically: () => client });
}
const client = moduleOf(process.env.CLIENT);
await client.link(() => {});
await client.evaluate();
const cases = moduleOf(process.env.CASES, (text) => text.replaceAll("crypto.randomUUID()", "caseId()"));
await cases.link(() => client);
await cases.evaluate();
