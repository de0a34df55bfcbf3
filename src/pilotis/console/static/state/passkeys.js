/** What `navigator.credentials` takes and returns, from and to the JSON of the API (Web Authentication 3, section 5.1). */

/** @param {string} text base64url */
const bytes = (text) =>
  Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (one) => one.charCodeAt(0));

/** @param {ArrayBuffer} buffer */
const base64url = (buffer) =>
  btoa(String.fromCharCode(...new Uint8Array(buffer)))
    .replaceAll("+", "-")
    .replaceAll("/", "_")
    .replaceAll("=", "");

/** @param {PublicKeyCredential} made @param {Record<string, ArrayBuffer | null>} parts */
const answer = (made, parts) => ({
  id: made.id,
  rawId: made.id,
  type: made.type,
  clientExtensionResults: {},
  response: Object.fromEntries(
    Object.entries({ clientDataJSON: made.response.clientDataJSON, ...parts }).flatMap(([name, value]) =>
      value ? [[name, base64url(value)]] : [],
    ),
  ),
});

/** Whether the browser has passkeys, and for this host: an address of numbers has none. */
export const havePasskeys = () => "PublicKeyCredential" in window && !/^[\d.]+$|:/.test(location.hostname);

/** Let the browser make a passkey. @param {any} options */
export async function makePasskey(options) {
  const publicKey = {
    ...options,
    challenge: bytes(options.challenge),
    user: { ...options.user, id: bytes(options.user.id) },
    excludeCredentials: (options.excludeCredentials || []).map((/** @type {any} */ one) => ({
      ...one,
      id: bytes(one.id),
    })),
  };
  const made = /** @type {PublicKeyCredential} */ (await navigator.credentials.create({ publicKey }));
  const response = /** @type {AuthenticatorAttestationResponse} */ (made.response);
  return answer(made, { attestationObject: response.attestationObject });
}

/** Let a passkey sign. @param {any} options */
export async function usePasskey(options) {
  const publicKey = { ...options, challenge: bytes(options.challenge) };
  const made = /** @type {PublicKeyCredential} */ (await navigator.credentials.get({ publicKey }));
  const response = /** @type {AuthenticatorAssertionResponse} */ (made.response);
  return answer(made, { authenticatorData: response.authenticatorData, signature: response.signature });
}
