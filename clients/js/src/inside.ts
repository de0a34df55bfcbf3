// What `ctx.api` of the server's functions has in common with the client: `build.mjs` writes it into their harness.
export { rows } from "./rows.ts";
export { write } from "./writes.ts";
