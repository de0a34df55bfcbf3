// Tells the program at the variable WEBHOOK_URL that a report is there. A step runs at least once: the receiver knows a
// repetition by the header, which is the same for all tries of a step.

export default async (report: any, ctx: any) => {
  const answer = await fetch(ctx.env.WEBHOOK_URL, {
    method: "POST",
    headers: { "Content-Type": "application/json", "Idempotency-Key": ctx.idempotencyKey },
    body: JSON.stringify(report),
  });
  if (!answer.ok) throw new Error(`the receiver answered ${answer.status}`);
  return { status: answer.status };
};
