"use strict";
// The proof that a sign-in comes back to the page that began it (RFC 7636).
const pkce = (() => {
  /** @param {ArrayBuffer | Uint8Array} bytes */
  const base64url = (bytes) =>
    btoa(String.fromCharCode(...new Uint8Array(bytes)))
      .replaceAll("+", "-")
      .replaceAll("/", "_")
      .replaceAll("=", "");
  /** A text that nobody guesses. */
  const random = () => base64url(crypto.getRandomValues(new Uint8Array(32)));

  /** The challenge of a verifier, by the method S256. @param {string} verifier */
  const challenge = async (verifier) =>
    base64url(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(verifier)));

  return { random, challenge };
})();
