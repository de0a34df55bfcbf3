"use strict";
const search = document.getElementById("search");
const articles = [...document.querySelectorAll("article")];
const entries = [...document.querySelectorAll("nav li")];
const none = document.getElementById("none");

function show() {
  const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
  const matches = (element) => words.every((word) => element.dataset.find.includes(word));
  for (const element of [...articles, ...entries]) element.hidden = !matches(element);
  for (const group of document.querySelectorAll("section.group, nav .group")) {
    group.hidden = !group.querySelector("[data-find]:not([hidden])");
  }
  none.hidden = articles.some((article) => !article.hidden);
}

search.addEventListener("input", show);
document.addEventListener("keydown", (event) => {
  if (event.key === "/" && document.activeElement !== search) {
    event.preventDefault();
    search.focus();
  }
});
// On a phone the list of routes covers the page: leave it once a route is chosen.
const contents = document.getElementById("contents");
const wide = matchMedia("(min-width: 60rem)");
const fold = () => { contents.open = wide.matches; };
wide.addEventListener("change", fold);
fold();
contents.addEventListener("click", (event) => {
  if (event.target.closest("a") && !wide.matches) contents.open = false;
});
