import type { Context } from "./pilotis.d.ts";

export default async (payload: { name?: string }, ctx: Context) => {
  ctx.log.info("called by", ctx.caller.type);
  return `Hello, ${payload.name ?? "world"}!`;
};
