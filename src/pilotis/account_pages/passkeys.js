"use strict";
// What `navigator.credentials` takes and returns, from and to the JSON of the API (Web Authentication 3, section 5.1).
const passkeys = (() => {
  /** @param {string} text base64url */
  const bytes = (text) =>
    Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (one) => one.charCodeAt(0));
  /** @param {ArrayBuffer} buffer */
  const base64url = (buffer) =>
    btoa(String.fromCharCode(...new Uint8Array(buffer)))
      .replaceAll("+", "-")
      .replaceAll("/", "_")
      .replaceAll("=", "");
  /** @param {{id: string}[]} [list] */
  const known = (list = []) => list.map((one) => ({ ...one, id: bytes(one.id) }));
  /** @param {PublicKeyCredential} made @param {Record<string, ArrayBuffer | null>} response */
  const answer = (made, response) => ({
    id: made.id,
    rawId: made.id,
    type: made.type,
    clientExtensionResults: {},
    response: Object.fromEntries(
      Object.entries({ clientDataJSON: made.response.clientDataJSON, ...response }).flatMap(([name, value]) =>
        value ? [[name, base64url(value)]] : [],
      ),
    ),
  });

  return {
    /** Whether the browser has passkeys, and for this host: an address of numbers has none. */
    work: () => "PublicKeyCredential" in window && !/^[\d.]+$|:/.test(location.hostname),

    /** Let the browser make a passkey. @param {any} options */
    async create(options) {
      const publicKey = {
        ...options,
        challenge: bytes(options.challenge),
        user: { ...options.user, id: bytes(options.user.id) },
        excludeCredentials: known(options.excludeCredentials),
      };
      const made = /** @type {PublicKeyCredential} */ (await navigator.credentials.create({ publicKey }));
      const response = /** @type {AuthenticatorAttestationResponse} */ (made.response);
      return answer(made, { attestationObject: response.attestationObject });
    },

    /** Let a passkey sign. @param {any} options */
    async get(options) {
      const publicKey = {
        ...options,
        challenge: bytes(options.challenge),
        allowCredentials: known(options.allowCredentials),
      };
      const made = /** @type {PublicKeyCredential} */ (await navigator.credentials.get({ publicKey }));
      const { authenticatorData, signature, userHandle } = /** @type {AuthenticatorAssertionResponse} */ (
        made.response
      );
      return answer(made, { authenticatorData, signature, userHandle });
    },
  };
})();
