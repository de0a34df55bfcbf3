// Verifies deliveries by a library from npm: `node libraries.cjs LIBRARY` reads cases as JSON, and prints a list of booleans.
const { Webhook } = require(process.argv[2]);

let text = "";
process.stdin.on("data", (chunk) => (text += chunk));
process.stdin.on("end", () => {
  const verdicts = JSON.parse(text).map(({ secret, body, headers }) => {
    try {
      new Webhook(secret).verify(Buffer.from(body, "base64").toString("utf-8"), headers);
      return true;
    } catch (error) {
      if (error.name === "WebhookVerificationError" || error.message.match(/signature|timestamp/i)) return false;
      throw error;
    }
  });
  console.log(JSON.stringify(verdicts));
});
