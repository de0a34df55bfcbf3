import config from "./config.js";

const { createClient, isApiError } = await import(`${config.url}/sdk/v1/pilotis.js`);
const pilotis = createClient(config);
const [profiles, articles, comments, favourites, follows] =
  ["profiles", "articles", "comments", "favourites", "follows"].map((title) => pilotis.rows(title));
const PAGE = 10;
const MINE = { $creator: { $member: "id" } };
const AUTHOR = { author: { fields: ["username", "image"] } };

/** The profile of the member who is signed in; null for a visitor. */
let me = null;
let stopLive = () => {};

// ---- Elements

function h(tag, properties = {}, ...children) {
  const { class: className = "", label, ...rest } = properties;
  const element = Object.assign(document.createElement(tag), rest, { className });
  if (label) element.setAttribute("aria-label", label);
  element.append(...children.flat().filter((child) => child !== null && child !== false));
  return element;
}

const link = (to, ...children) => h("a", { href: `#/${to}` }, ...children);
const button = (text, run, properties = {}) => h("button", { type: "button", onclick: attempt(run), ...properties }, text);
const day = (text) => new Date(text).toLocaleDateString("en", { day: "numeric", month: "long", year: "numeric" });

/** Another page was opened while this one was read. */
class Left extends Error {}
/** Runs what a button or form asks for, and tells what went wrong. */
const attempt = (run) => async (event) => {
  event.preventDefault();
  const alert = document.getElementById("error");
  alert.textContent = "";
  try {
    await run(event.currentTarget ?? event.target);
  } catch (error) {
    if (error instanceof Left) return;
    alert.textContent = isApiError(error, "UNIQUE_VIOLATION") ? "Somebody has taken this name." : error.message;
  }
};

function form(fields, send, run) {
  const inputs = fields.map(({ name, label, kind = "input", ...rest }) =>
    h("label", {}, label, h(kind, { name, ...rest })));
  return h("form", { onsubmit: attempt((form) => run(Object.fromEntries(new FormData(form)), form)) },
    ...inputs, h("button", { class: "main" }, send));
}

function face(profile) {
  const { username, image } = profile.data;
  return link(`@${username}`, image ? h("img", { src: image, alt: "", loading: "lazy" }) : h("i", {}, username[0]), username);
}

// ---- Lists of articles

const counts = () => ({
  favourites: { from: "favourites.article" },
  ...(me && { mine: { from: "favourites.article", where: { by: me.data.username }, exists: true } }),
});
const shown = (query) => query.expand(AUTHOR).counts(counts());

function heart(article) {
  const { favourites: many, mine } = article.counts;
  return button(`♥ ${many}`, async (target) => {
    if (!me) return go("sign-in");
    if (mine) await favourites.where({ article: article.data.slug, ...MINE }).delete();
    else await favourites.create({ article: article.data.slug, by: me.data.username });
    article.counts = { favourites: many + (mine ? -1 : 1), mine: !mine };
    target.replaceWith(heart(article));
  }, { class: mine ? "on" : "", label: mine ? "Take back your favourite" : "Make it a favourite" });
}

const byline = (article) =>
  h("p", { class: "byline" }, face(article.expanded.author), h("time", {}, day(article.created_at)));

function card(article) {
  const { slug, title, description, tags } = article.data;
  return h("article", {},
    h("div", { class: "row" }, byline(article), heart(article)),
    link(`article/${slug}`, h("h2", {}, title)),
    h("p", {}, description ?? ""),
    tagList(tags ?? []));
}

const tagList = (tags) => h("ul", { class: "tags" }, tags.map((tag) => h("li", {}, link(`tag/${encodeURIComponent(tag)}`, tag))));

/** The articles of a query, ten more at each request. */
async function pages(query, empty) {
  const list = h("section", { label: "Articles" });
  const more = async (cursor) => {
    const page = await query.limit(PAGE).page({ cursor });
    list.append(...page.rows.map(card));
    if (page.cursor) list.append(button("Show more", (target) => (target.remove(), more(page.cursor)), { class: "more" }));
  };
  await more(null);
  return list.children.length ? list : h("p", { class: "empty" }, empty);
}

const newest = (where) => shown(articles.where(where)).orderBy("created_at", "desc");

async function home(show, tab, tag) {
  let where = tag ? { tags: { $arrayContains: tag } } : {};
  if (tab === "feed") {
    const followed = await follows.where({ by: me.data.username }).fields("profile").limit(200);
    where = { author: { $in: followed.rows.map((row) => row.data.profile) } };
  }
  const used = await articles.aggregate([
    { $unwind: "$tags" }, { $group: { _id: "$tags", many: { $sum: 1 } } }, { $sort: { many: -1 } }, { $limit: 20 },
  ]);
  const tabs = [["", "All articles"], ...(me ? [["feed", "Your feed"]] : []), ...(tag ? [[`tag/${tag}`, `# ${tag}`]] : [])];
  show(
    h("div", { class: "banner" }, h("h1", {}, "Conduit"), h("p", {}, "A place to share your knowledge.")),
    h("div", { class: "columns" },
      h("div", {},
        h("nav", { class: "tabs", label: "Lists" }, tabs.map(([to, text]) => link(to, text))),
        await pages(newest(where), tab === "feed" ? "Follow somebody, and what they write is here." : "No articles yet.")),
      h("aside", {}, h("h2", {}, "Popular tags"), tagList(used.map((one) => one._id)))));
  mark(tag ? `tag/${tag}` : tab ?? "");
}

// ---- One article

async function articlePage(show, slug) {
  const article = await shown(articles.where({ slug })).first();
  if (!article) return show(h("p", { class: "empty" }, "There is no such article."));
  const isMine = me?.data.username === article.data.author;
  const list = h("section", { label: "Comments" });
  show(
    h("article", { class: "whole" },
      h("h1", {}, article.data.title),
      h("div", { class: "row" }, byline(article), heart(article),
        isMine && link(`editor/${slug}`, "Edit"),
        isMine && button("Delete", async () => { await articles.delete(article); go(""); }),
        !isMine && await followButton(article.expanded.author)),
      h("div", { class: "text" }, article.data.body), tagList(article.data.tags ?? [])),
    me ? form([{ name: "body", label: "Your comment", kind: "textarea", required: true }], "Post comment", async ({ body }, form) => {
      await comments.create({ article: slug, author: me.data.username, body });
      form.reset();
    }) : h("p", {}, link("sign-in", "Sign in"), " to comment."),
    list);
  // Comments of others appear while the page is open.
  stopLive = comments.where({ article: slug }).expand(AUTHOR).orderBy("created_at").live((rows) =>
    list.replaceChildren(...rows.map((row) => h("article", {}, h("p", { class: "text" }, row.data.body),
      h("div", { class: "row" }, byline(row), me?.data.username === row.data.author && button("Delete", () => comments.delete(row.id)))))));
}

async function editor(show, slug) {
  const article = slug && await articles.where({ slug }).first();
  const { title = "", description = "", body = "", tags = [] } = article?.data ?? {};
  show(h("h1", {}, slug ? "Edit the article" : "Write an article"), form([
    { name: "title", label: "Title", value: title, required: true, maxLength: 150 },
    { name: "description", label: "What it is about", value: description, maxLength: 300 },
    { name: "body", label: "Text", kind: "textarea", value: body, rows: 12, required: true },
    { name: "tags", label: "Tags, with commas between them", value: tags.join(", ") },
  ], slug ? "Save" : "Publish", async (values) => {
    const data = { ...values, tags: values.tags.split(",").map((tag) => tag.trim()).filter(Boolean) };
    if (article) await articles.update(article, data);
    else data.slug = await publish(data);
    go(`article/${slug ?? data.slug}`);
  }));
}

/** Creates an article under a slug that nobody else has, and returns it. */
async function publish(data) {
  const wish = data.title.toLowerCase().normalize("NFKD").replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "").slice(0, 80) || "article";
  for (let slug = wish; ; slug = `${wish}-${Math.random().toString(36).slice(2, 8)}`) {
    try {
      return (await articles.create({ ...data, slug, author: me.data.username })).data.slug;
    } catch (error) {
      if (!isApiError(error, "UNIQUE_VIOLATION")) throw error;
    }
  }
}

// ---- Members

async function followButton(profile) {
  const row = me && await follows.where({ by: me.data.username, profile: profile.data.username }).first();
  return button(row ? `Unfollow ${profile.data.username}` : `Follow ${profile.data.username}`, async (target) => {
    if (!me) return go("sign-in");
    await (row ? follows.delete(row) : follows.create({ by: me.data.username, profile: profile.data.username }));
    target.replaceWith(await followButton(profile));
  });
}

async function profilePage(show, username, tab) {
  const profile = await profiles.where({ username }).first();
  if (!profile) return show(h("p", { class: "empty" }, "Nobody has this name."));
  let where = { author: username };
  if (tab) {
    const liked = await favourites.where({ by: username }).fields("article").orderBy("created_at", "desc").limit(200);
    where = { slug: { $in: liked.rows.map((row) => row.data.article) } };
  }
  show(
    h("div", { class: "banner" }, face(profile), h("p", {}, profile.data.bio ?? ""),
      me?.data.username === username ? link("settings", "Edit your profile") : await followButton(profile)),
    h("nav", { class: "tabs", label: "Lists" }, link(`@${username}`, "Articles"), link(`@${username}/favourites`, "Favourites")),
    await pages(newest(where), "Nothing here yet."));
  mark(`@${username}${tab ? "/favourites" : ""}`);
}

function settings(show) {
  const { username, bio, image } = me.data;
  show(h("h1", {}, "Your profile"), form([
    { name: "image", label: "Address of a picture", value: image ?? "", type: "url" },
    { name: "bio", label: "About you", kind: "textarea", value: bio ?? "" },
  ], "Save", async ({ image, ...rest }) => {
    me = await profiles.update(me, { ...rest, image: image || null });
    go(`@${username}`);
  }), button("Sign out", () => pilotis.members.signOut()));
}

function entrance(show, isNew) {
  show(h("h1", {}, isNew ? "Sign up" : "Sign in"), form([
    { name: "login_id", label: "Name", autocomplete: "username", required: true },
    { name: "password", label: "Password", type: "password", required: true, autocomplete: isNew ? "new-password" : "current-password" },
  ], isNew ? "Sign up" : "Sign in", async (values) => {
    await pilotis.members[isNew ? "signUp" : "signIn"](values);
    // A sign-up that was cut off before its profile goes on here.
    me = await profiles.where(MINE).first() ?? await profiles.create({ username: values.login_id });
    go("");
  }), link(isNew ? "sign-in" : "sign-up", isNew ? "I have an account" : "I need an account"));
}

// ---- Addresses

function go(to) {
  if (location.hash === `#/${to}`) routed();
  else location.hash = `#/${to}`;
}

/** Marks the link to the page that is shown. */
function mark(to) {
  for (const one of document.querySelectorAll("nav a")) {
    one.toggleAttribute("aria-current", decodeURIComponent(one.hash) === `#/${to}`);
  }
}

let opened = 0;
const route = attempt(async () => {
  const number = ++opened;
  const show = (...children) => {
    if (number !== opened) throw new Left();
    document.querySelector("main").replaceChildren(...children);
  };
  stopLive();
  stopLive = () => {};
  const [first, second] = decodeURIComponent(location.hash.slice(2)).split("/");
  document.querySelector("header nav").replaceChildren(link("", "Conduit"),
    ...(me ? [link("editor", "Write"), link("settings", "Settings"), face(me)] : [link("sign-in", "Sign in"), link("sign-up", "Sign up")]));
  mark(location.hash.slice(2));
  if (!me && ["feed", "editor", "settings"].includes(first)) return go("sign-in");
  if (first === "article") return articlePage(show, second);
  if (first === "editor") return editor(show, second);
  if (first === "settings") return settings(show);
  if (first === "sign-in" || first === "sign-up") return entrance(show, first === "sign-up");
  if (first.startsWith("@")) return profilePage(show, first.slice(1), second);
  return home(show, first === "feed" ? first : "", first === "tag" ? second : undefined);
});

const routed = () => route(new Event("route"));
addEventListener("hashchange", routed);
pilotis.members.onChange(async (event) => {
  if (event.type !== "signed_out") return;
  me = null;
  go("");
});
if (await pilotis.members.session()) me = await profiles.where(MINE).first();
routed();
