"use strict";
/**
 * Solves puzzles: a nonce whose SHA-256 begins with zero bits. Browsers have no SHA-256 that answers at once. And shows
 * the widgets of vendors.
 */
const challenges = (() => {
  const primes = /** @type {number[]} */ ([]);
  for (let n = 2; primes.length < 64; n++) if (primes.every((p) => n % p)) primes.push(n);
  const fraction = (/** @type {number} */ value) => ((value % 1) * 2 ** 32) | 0;
  const K = Int32Array.from(primes, (p) => fraction(Math.cbrt(p)));
  const START = Int32Array.from(primes.slice(0, 8), (p) => fraction(Math.sqrt(p)));
  const W = new Int32Array(64);
  const turn = (/** @type {number} */ x, /** @type {number} */ n) => (x >>> n) | (x << (32 - n));

  /** One block of SHA-256 (FIPS 180-4, section 6.2.2). @param {Int32Array} state @param {DataView} view @param {number} at */
  function block(state, view, at) {
    for (let i = 0; i < 16; i++) W[i] = view.getInt32(at + 4 * i);
    for (let i = 16; i < 64; i++) {
      const [x, y] = [W[i - 15], W[i - 2]];
      const s0 = turn(x, 7) ^ turn(x, 18) ^ (x >>> 3);
      const s1 = turn(y, 17) ^ turn(y, 19) ^ (y >>> 10);
      W[i] = (W[i - 16] + s0 + W[i - 7] + s1) | 0;
    }
    let [a, b, c, d, e, f, g, h] = state;
    for (let i = 0; i < 64; i++) {
      const t1 = (h + (turn(e, 6) ^ turn(e, 11) ^ turn(e, 25)) + ((e & f) ^ (~e & g)) + K[i] + W[i]) | 0;
      const t2 = ((turn(a, 2) ^ turn(a, 13) ^ turn(a, 22)) + ((a & b) ^ (a & c) ^ (b & c))) | 0;
      [h, g, f, e, d, c, b, a] = [g, f, e, (d + t1) | 0, c, b, a, (t1 + t2) | 0];
    }
    [a, b, c, d, e, f, g, h].forEach((value, i) => (state[i] = (state[i] + value) | 0));
  }

  /** The first word of the SHA-256 of a text. @param {string} text */
  function firstWord(text) {
    const length = text.length;
    const bytes = new Uint8Array((((length + 8) >> 6) + 1) << 6);
    for (let i = 0; i < length; i++) bytes[i] = text.charCodeAt(i);
    bytes[length] = 128;
    const view = new DataView(bytes.buffer);
    view.setUint32(bytes.length - 4, length * 8);
    const state = START.slice();
    for (let at = 0; at < bytes.length; at += 64) block(state, view, at);
    return state[0] >>> 0;
  }

  /**
   * The token that solves a puzzle. The page stays alive meanwhile.
   * @param {{challenge: string, difficulty: number}} puzzle
   */
  async function solve({ challenge, difficulty }) {
    for (let nonce = 0; ; nonce++) {
      const token = `${challenge}.${nonce.toString(36)}`;
      if (firstWord(token) >>> (32 - difficulty) === 0) return token;
      if (nonce % 2000 === 1999) await new Promise((resume) => setTimeout(resume));
    }
  }

  // The scripts of vendors, and the names of what they define.
  const WIDGETS = /** @type {Record<string, [string, string]>} */ ({
    turnstile: ["https://challenges.cloudflare.com/turnstile/v0/api.js?render=explicit", "turnstile"],
    hcaptcha: ["https://hcaptcha.com/1/api.js?render=explicit", "hcaptcha"],
    recaptcha: ["https://www.google.com/recaptcha/api.js?render=explicit", "grecaptcha"],
  });
  const loaded = /** @type {Record<string, Promise<any>>} */ ({});

  /** What a vendor's script defines, once it can be used. @param {string} provider @returns {Promise<any>} */
  function load(provider) {
    const [address, name] = WIDGETS[provider];
    loaded[provider] ??= new Promise((resolve, reject) => {
      const script = document.createElement("script");
      script.src = address;
      script.onload = () => {
        const widget = /** @type {any} */ (window)[name];
        // Google's has a part that it loads itself.
        if (provider === "recaptcha") widget.ready(() => resolve(widget));
        else resolve(widget);
      };
      script.onerror = () => {
        script.remove();
        delete loaded[provider];
        reject(new Error(provider));
      };
      document.head.append(script);
    });
    return loaded[provider];
  }

  /**
   * The token of a vendor's widget, which is shown in a place until somebody has solved it; rejects if it fails.
   * @param {{provider: string, site_key: string}} challenge @param {HTMLElement} place @returns {Promise<string>}
   */
  async function ask({ provider, site_key }, place) {
    const widget = await load(provider);
    const box = document.createElement("div");
    place.replaceChildren(box);
    try {
      return await new Promise((resolve, reject) => {
        const fail = () => reject(new Error(provider));
        widget.render(box, {
          sitekey: site_key,
          callback: resolve,
          "error-callback": fail,
          "expired-callback": fail,
          "timeout-callback": fail,
          theme: "auto",
        });
      });
    } finally {
      place.replaceChildren();
    }
  }
  return { solve, ask };
})();
