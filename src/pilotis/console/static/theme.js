// Before the first paint: the chosen theme and language, or the system's. A script of its own, because the policy
// allows none inline.
(() => {
  const read = (/** @type {string} */ name) => {
    try {
      return localStorage.getItem(name);
    } catch {
      return null;
    }
  };
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const apply = () => {
    const chosen = read("pilotis.theme");
    document.documentElement.dataset.theme =
      chosen === "light" || chosen === "dark" ? chosen : dark.matches ? "dark" : "light";
  };
  apply();
  dark.addEventListener("change", apply);
  addEventListener("pilotis-theme", apply);
  const language = read("pilotis.language") || (navigator.language.startsWith("ko") ? "ko" : "en");
  document.documentElement.lang = language === "ko" ? "ko" : "en";
  // What Safari 17, Firefox 125 and Chrome 114 were the last to bring of what nothing can stand in for: without it no
  // menu opens, so that nobody could even sign out.
  if (!("popover" in HTMLElement.prototype)) {
    document.documentElement.dataset.outdated = "";
    addEventListener("DOMContentLoaded", () => {
      const said = document.createElement("p");
      said.className = "noscript";
      said.append(
        /** @type {HTMLTemplateElement} */ (document.getElementById(`outdated-${document.documentElement.lang}`))
          .content,
      );
      document.getElementById("root")?.replaceWith(said);
    });
  }
  // The words are imported once all modules are there: they are fetched meanwhile.
  const words = document.createElement("link");
  words.rel = "modulepreload";
  words.href = new URL(
    `strings/${document.documentElement.lang}.js`,
    /** @type {HTMLScriptElement} */ (document.currentScript).src,
  ).href;
  document.head.append(words);
})();
