// Bundles a function with its npm packages, inside a sandbox. It reads {files, entry, registry} as JSON from standard
// input, and writes one line of JSON with the packages and then the bundle to standard output. Outside of a sandbox its
// arguments are the folder in which it works and the path of Deno.

const [folder, deno] = Deno.args.length ? Deno.args : ["/tmp", "/bin/deno"];
const APP = `${folder}/app/`;
const output = Deno.stdout;

async function write(bytes: Uint8Array) {
  for (let n = 0; n < bytes.length;) n += await output.write(bytes.subarray(n));
}

await write(new TextEncoder().encode("ready\n"));
const request = await new Response(Deno.stdin.readable).json();
for (const [name, text] of Object.entries<string>(request.files)) {
  await Deno.mkdir(APP + name.slice(0, name.lastIndexOf("/") + 1), { recursive: true });
  await Deno.writeFile(APP + name, Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0)));
}
const registry = request.registry ? { NPM_CONFIG_REGISTRY: request.registry } : {};
const bundled = await new Deno.Command(deno, {
  args: ["bundle", "--no-remote", "--node-modules-dir=none", "--platform=deno", `--output=${folder}/bundle.js`, request.entry],
  cwd: APP,
  env: registry,
  stdout: "null",
  stderr: "inherit",
  stdin: "null",
}).spawn().status;
if (!bundled.success) Deno.exit(1);
// The lock file names each package as `name@version`, with the versions of its peers after an underscore.
const lock = JSON.parse(await Deno.readTextFile(APP + "deno.lock").catch(() => "{}"));
const packages = Object.keys(lock.npm ?? {}).map((key) => {
  const at = key.indexOf("@", 1);
  return { name: key.slice(0, at), version: key.slice(at + 1).split("_")[0] };
});
await write(new TextEncoder().encode(JSON.stringify(packages) + "\n"));
await write(await Deno.readFile(`${folder}/bundle.js`));

export {};
