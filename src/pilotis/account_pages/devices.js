"use strict";
/**
 * What tells the server that members have signed in here before, of the last five: by it their own sign-ins take no puzzle
 * while others guess their passwords. A page of the server and the client library keep it in the same form.
 * @param {string | null} publicKey
 */
const knownDevices = (publicKey) => {
  const PLACE = `pilotis:${publicKey}:devices`;
  const MOST = 5;
  /** The tokens by their members, the oldest first. @returns {Record<string, string>} */
  const known = () => {
    try {
      return JSON.parse(localStorage.getItem(PLACE) || "{}");
    } catch {
      // Nothing is stored, or nothing may be.
      return {};
    }
  };
  return {
    /** The header of a sign-in. */
    header: () => {
      const tokens = Object.values(known()).join();
      return /** @type {Record<string, string>} */ (tokens ? { "X-Device-Token": tokens } : {});
    },
    /** Keep what an answer has; "" is the member that has not signed in yet. @param {string} member @param {string} token */
    add: (member, token) => {
      const { [member]: _, ...others } = known();
      const kept = [...Object.entries(others), [member, token]].slice(-MOST);
      try {
        localStorage.setItem(PLACE, JSON.stringify(Object.fromEntries(kept)));
      } catch {
        // The next sign-in takes a puzzle.
      }
    },
  };
};
