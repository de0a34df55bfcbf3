// `pilotis dev` tells which server it runs. Put the address and the public key of your own server here for the others.
const isLocal = ["127.0.0.1", "localhost"].includes(location.hostname);

export default isLocal
  ? await (await fetch("/pilotis-dev.json")).json()
  : { url: "https://api.example.com", publicKey: "pk_…" };
