"use strict";
const search = document.getElementById("search");
const contents = document.getElementById("contents");
const announcer = document.getElementById("announcer");

// Every example shows the language that was chosen last. A private window may refuse storage.
function remembered() {
  try {
    return localStorage.getItem("language");
  } catch {
    return null;
  }
}
function choose(language) {
  for (const pre of document.querySelectorAll("pre[data-language]")) pre.hidden = pre.dataset.language !== language;
  for (const tab of document.querySelectorAll("button[data-language]")) {
    tab.setAttribute("aria-pressed", String(tab.dataset.language === language));
  }
}
if (document.querySelector(`button[data-language="${CSS.escape(remembered() ?? "")}"]`)) choose(remembered());

async function copy(button) {
  const shown = button.closest(".sample").querySelector("pre:not([hidden])");
  try {
    await navigator.clipboard.writeText(shown.innerText);
    button.textContent = "Copied";
  } catch {
    // Without https there is no clipboard: select the text, so that the keyboard's own copying works.
    getSelection().selectAllChildren(shown);
    button.textContent = "Selected";
  }
  if (announcer) announcer.textContent = `Example ${button.textContent.toLowerCase()}.`;
  setTimeout(() => {
    button.textContent = "Copy";
  }, 1600);
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("button");
  if (!button) return;
  if (button.classList.contains("copy")) copy(button);
  if (button.dataset.language) {
    const before = button.getBoundingClientRect().top;
    choose(button.dataset.language);
    scrollBy(0, button.getBoundingClientRect().top - before);
    try {
      localStorage.setItem("language", button.dataset.language);
    } catch {
      /* it holds for this page alone */
    }
  }
});

if (search) {
  const articles = [...document.querySelectorAll("article")];
  const entries = [...document.querySelectorAll(".rail li[data-find]")];
  const none = document.getElementById("none");
  const show = () => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const matches = (element) => words.every((word) => element.dataset.find.includes(word));
    for (const element of [...articles, ...entries]) element.hidden = !matches(element);
    for (const group of document.querySelectorAll("section.group, .rail .group")) {
      group.hidden = !group.querySelector("[data-find]:not([hidden])");
    }
    document.getElementById("prose").hidden = words.length > 0;
    none.hidden = articles.some((article) => !article.hidden);
    if (words.length) scrollTo(0, 0);
  };
  search.addEventListener("input", show);
  document.addEventListener("keydown", (event) => {
    const typing = event.target.closest("input, textarea, select");
    if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey && !event.altKey) {
      event.preventDefault();
      search.focus();
    }
    if (event.key === "Escape" && event.target === search) {
      search.value = "";
      show();
    }
  });
  // A link into what the search hides ends the search.
  addEventListener("hashchange", () => {
    const target = document.getElementById(location.hash.slice(1));
    if (target && !target.getClientRects().length) {
      search.value = "";
      show();
      target.scrollIntoView();
    }
  });

  // On a narrow screen the list covers the page: it is folded, and folds again once an operation is chosen.
  const wide = matchMedia("(min-width: 60rem)");
  const fold = () => {
    contents.open = wide.matches;
  };
  wide.addEventListener("change", fold);
  fold();
  search.addEventListener("input", () => {
    if (!wide.matches) contents.open = false;
  });
  contents.addEventListener("click", (event) => {
    if (event.target.closest("a") && !wide.matches) contents.open = false;
  });

  // The rail marks what is being read.
  const links = new Map(entries.map((entry) => [entry.querySelector("a").hash.slice(1), entry.querySelector("a")]));
  let current = null;
  const watcher = new IntersectionObserver(
    (seen) => {
      const top = seen.filter((one) => one.isIntersecting).map((one) => links.get(one.target.id))[0];
      if (!top || top === current) return;
      current?.removeAttribute("aria-current");
      top.setAttribute("aria-current", "true");
      current = top;
      const rail = top.closest(".rail");
      if (wide.matches) rail.scrollTop = top.offsetTop - rail.clientHeight / 2;
    },
    { rootMargin: "-15% 0px -75% 0px" },
  );
  for (const article of articles) watcher.observe(article);
}
