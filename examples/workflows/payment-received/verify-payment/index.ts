// Checks the signature of a payment service in Stripe's scheme (https://docs.stripe.com/webhooks/signature): the variable
// SIGNING_SECRET is the secret of its endpoint. Old requests are rejected, because whoever captured one could send it again.
import { createHmac, timingSafeEqual } from "node:crypto";

const SECONDS = 300;

export default (body: string, ctx: any) => {
  const parts = (ctx.headers["stripe-signature"] ?? "").split(",").map((part: string) => part.split("="));
  const time = parts.find(([name]: string[]) => name === "t")?.[1] ?? "";
  if (!/^\d{1,12}$/.test(time) || Math.abs(Date.now() / 1000 - Number(time)) > SECONDS) {
    return { error: "The request is too old, or has no time.", status: 400 };
  }
  const wanted = createHmac("sha256", ctx.env.SIGNING_SECRET).update(`${time}.${ctx.rawBody}`).digest();
  // While the secret is being replaced there are two signatures.
  const matches = parts.some(([name, value]: string[]) => {
    const given = Buffer.from(name === "v1" ? value : "", "hex");
    return given.length === wanted.length && timingSafeEqual(given, wanted);
  });
  if (!matches) return { error: "The signature does not match.", status: 400 };
  const event = JSON.parse(body);
  const { client_reference_id: order = null, amount_total: amount = null } = event.data.object;
  return { type: event.type, order, amount };
};
