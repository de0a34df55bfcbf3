import config from "./config.js";

const { createClient, isApiError } = await import(`${config.url}/sdk/v1/pilotis.js`);
const pilotis = createClient(config);
const MINE = { $creator: { $member: "id" } };
const POINTS = { waypoints: { from: "waypoints.trail", order_by: "position", limit: 100 } };
const DIFFICULTIES = ["easy", "moderate", "hard"];
const ORDERS = { Newest: ["created_at", "desc"], Shortest: ["km", "asc"], Longest: ["km", "desc"] };
const PLACES = { Bolzano: [46.4983, 11.3548], Chamonix: [45.9237, 6.8694], Innsbruck: [47.2692, 11.4041], Zermatt: [46.0207, 7.7491] };
const NEAR = 60_000;
const SHOWN = 60;
/** For how many seconds the address of a photo works. */
const DAY = 86_400;

/** The profile of the member who is signed in; null for a visitor. */
let me = null;
let stop = () => {};

// ---- Elements

function h(tag, properties = {}, ...children) {
  const { class: className = "", label, ...rest } = properties;
  const element = Object.assign(document.createElement(tag), rest, { className });
  if (label) element.setAttribute("aria-label", label);
  element.append(...children.flat().filter((child) => child !== null && child !== false && child !== undefined));
  return element;
}

function s(tag, attributes, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

const link = (to, ...children) => h("a", { href: `#/${to}` }, ...children);
const button = (text, run, properties = {}) => h("button", { type: "button", onclick: attempt(run), ...properties }, text);
const facts = ({ km, difficulty, is_public }) => h("p", { class: "facts" }, h("b", { class: difficulty }, difficulty), `${km} km`, !is_public && h("span", {}, "private"));

/** Another place was opened while this one was read. */
class Left extends Error {}

/** Runs what a button or form asks for, and tells what went wrong. */
const attempt = (run) => async (event) => {
  event?.preventDefault?.();
  const alert = document.getElementById("error");
  alert.textContent = "";
  try {
    await run(event?.currentTarget ?? event?.target);
  } catch (error) {
    if (error instanceof Left) return;
    const texts = { UNIQUE_VIOLATION: "This name is taken, or was there already.", REFERENCE_NOT_FOUND: "Nobody has this name.", ROW_NOT_FOUND: "There is no such trail, or it is private." };
    alert.textContent = (isApiError(error) && texts[error.code]) || error.message;
  }
};

function input({ label, kind = "input", options, ...rest }) {
  const field = h(kind, { required: true, ...rest }, ...(options ?? []).map(([value, text]) => h("option", { value }, text)));
  return h("label", { class: rest.type === "checkbox" ? "check" : "" }, label, field);
}

const form = (fields, send, run) =>
  h("form", { onsubmit: attempt((form) => run(Object.fromEntries(new FormData(form)), form)) }, fields.map(input), h("button", { class: "main" }, send));

/** Draws way points as a map, north above. */
function map(points, names) {
  const around = Math.cos((points[0].data.place.latitude * Math.PI) / 180);
  const flat = points.map(({ data: { place } }) => [place.longitude * around, -place.latitude]);
  const [left, top] = [0, 1].map((axis) => Math.min(...flat.map((point) => point[axis])));
  const [width, height] = [0, 1].map((axis) => Math.max(...flat.map((point) => point[axis])) - [left, top][axis]);
  const scale = Math.min(260 / (width || 1e-9), 120 / (height || 1e-9));
  const shown = flat.map(([x, y]) => [200 + (x - left - width / 2) * scale, 100 + (y - top - height / 2) * scale].map((value) => value.toFixed(1)));
  const hills = [96, 74, 54, 36, 20].map((r, number) => s("ellipse", { cx: 150 + number * 9, cy: 118 - number * 6, rx: r * 1.9, ry: r, transform: `rotate(${-14 - number * 4} 200 100)` }));
  return s("svg", { viewBox: "0 0 400 200", role: "img", "aria-label": names ? "Map of the trail" : "" }, s("g", { class: "hills" }, ...hills),
    s("polyline", { points: shown.join(" ") }),
    ...shown.map(([cx, cy], number) => s("circle", { cx, cy, r: number && number < shown.length - 1 ? 4 : 6 })),
    ...(names ? shown.map(([x, y], number) => s("text", { x, y: y - 11, "text-anchor": "middle" }, points[number].data.name)) : []));
}

// ---- Finding

const found = { text: "", difficulty: "", place: "", order: "Newest", mine: false };

async function home(show) {
  const list = h("section", { class: "cards", label: "Trails" });
  const total = h("output");
  const filters = h("form", { class: "filters", onsubmit: (event) => event.preventDefault(), oninput: attempt(() => read()) }, [
    { name: "text", label: "Words", type: "search", value: found.text },
    { name: "place", label: "Near", kind: "select", options: [["", "Anywhere"], ...Object.keys(PLACES).map((name) => [name, name])] },
    { name: "difficulty", label: "Difficulty", kind: "select", options: [["", "Any"], ...DIFFICULTIES.map((name) => [name, name])] },
    { name: "order", label: "Order", kind: "select", options: Object.keys(ORDERS).map((name) => [name, name]) },
    ...(me ? [{ name: "mine", label: "only mine", type: "checkbox" }] : []),
  ].map((field) => input({ ...field, required: false })));
  for (const name of ["place", "difficulty", "order"]) filters.elements[name].value = found[name];
  if (me) filters.elements.mine.checked = found.mine;
  let asked = 0;
  async function read() {
    const number = ++asked;
    Object.assign(found, Object.fromEntries(new FormData(filters)), { mine: Boolean(filters.elements.mine?.checked) });
    const [latitude, longitude] = PLACES[found.place] ?? [];
    const where = {
      ...(found.difficulty && { difficulty: found.difficulty }), ...(found.mine && MINE),
      ...(found.place && { place: { $within: { center: { latitude, longitude }, radius: NEAR } } }),
    };
    const [order_by, order_direction] = ORDERS[found.order];
    const trails = pilotis.rows("trails");
    const page = found.text.trim()
      ? await trails.search(found.text, { fields: ["title", "text"], where, order_by, order_direction, limit: SHOWN, expand: POINTS })
      : await trails.where(where).orderBy(order_by, order_direction).limit(SHOWN).expand(POINTS);
    if (number !== asked) return;
    total.textContent = page.total === 1 ? "1 trail" : `${page.total} trails`;
    list.replaceChildren(...page.rows.map((trail) => h("article", {}, link(`t/${trail.data.slug}`, trail.expanded.waypoints.length > 0 && map(trail.expanded.waypoints), h("h2", {}, trail.data.title)), facts(trail.data), h("p", {}, trail.data.text))));
  }
  show(h("div", { class: "banner" }, h("h1", {}, "Where do we walk?"), filters), total, list);
  await read();
}

// ---- One trail

async function trailPage(show, slug, secret) {
  // Whoever has the link reads the trail with all that belongs to it, and finds no other.
  const client = secret ? createClient({ ...config, capabilities: { trail: secret } }) : pilotis;
  const [trails, comments, shares, photos] = [...["trails", "comments", "shares"].map((title) => client.rows(title)), client.files("photos")];
  const trail = await trails.by("slug", slug).get();
  const points = await client.rows("waypoints").where({ trail: slug }).orderBy("position").limit(100);
  const isMine = me?.data.username === trail.data.author;
  const pictures = h("div", { class: "photos" });
  const list = h("section", { label: "Comments" });
  const showPhotos = async () => {
    const folder = await photos.get(slug).catch((error) => (error.status === 404 ? { files: [] } : Promise.reject(error)));
    pictures.replaceChildren(...await Promise.all(folder.files.map(async (file) => {
      const { url } = await photos.signedUrl(file.id, DAY);
      return h("figure", {}, h("img", { src: `${url}&width=480`, alt: file.name, loading: "lazy" }), isMine && button("Delete", async () => (await photos.delete(file.id), showPhotos()), { class: "quiet" }));
    })));
  };
  show(h("article", { class: "trail" }, points.rows.length > 0 && map(points.rows, true),
    h("h1", {}, trail.data.title), facts(trail.data), h("p", { class: "text" }, trail.data.text), h("small", {}, `by ${trail.data.author}`), pictures),
    isMine && await ownPanel(trail, shares, photos, showPhotos),
    h("h2", {}, "Comments"), list,
    me && !secret ? form([{ name: "text", label: "Your comment", kind: "textarea", rows: 2, maxLength: 2000 }], "Comment", async ({ text }, form) => {
      await comments.create({ trail: slug, author: me.data.username, text });
      form.reset();
    }) : h("p", {}, secret ? "You came by a link: you read, and do not write." : link("sign-in", "Sign in to comment.")));
  stop = comments.where({ trail: slug }).orderBy("created_at").live((rows) =>
    list.replaceChildren(...rows.map((row) => h("div", { class: "comment" }, h("strong", {}, row.data.author), h("p", { class: "text" }, row.data.text),
      (isMine || me?.data.username === row.data.author) && button("Delete", () => comments.delete(row.id), { class: "quiet" })))));
  await showPhotos();
}

/** What the author of a trail has beside it: with whom it is shared, its photos, its link. */
async function ownPanel(trail, shares, photos, shown) {
  const { slug, secret, is_public } = trail.data;
  const people = h("ul", { label: "Shared with" });
  const read = async () => {
    const { rows } = await shares.where({ trail: slug }).orderBy("created_at").limit(100);
    people.replaceChildren(...rows.map((row) => h("li", {}, row.data.with, button("×", async () => (await shares.delete(row.id), read()), { class: "quiet", label: `End sharing with ${row.data.with}` }))));
  };
  await read();
  return h("aside", {}, h("div", { class: "row" }, link(`edit/${slug}`, "Edit"), button(is_public ? "Make it private" : "Make it public", async () => (await pilotis.rows("trails").update(trail, { is_public: !is_public }), route())),
    h("label", { class: "button" }, "Add photos", h("input", { type: "file", multiple: true, accept: "image/jpeg,image/png,image/webp", onchange: attempt(async (field) => {
      for (const file of field.files) await photos.upload(file, { path: `${slug}/${crypto.randomUUID().slice(0, 8)}-${file.name}` });
      await shown();
    }) })), button("Delete", () => remove(trail, photos), { class: "quiet" })),
    form([{ name: "with", label: "Share with", autocomplete: "off", maxLength: 30 }], "Share", async (values, form) => (await shares.create({ trail: slug, ...values }), form.reset(), read())), people,
    h("p", {}, "Or by a link, for whoever has it: ", h("code", {}, `${location.origin}${location.pathname}#/t/${slug}/${secret}`)));
}

/** Photos do not go with their trail by themselves. */
async function remove(trail, photos) {
  const folder = await photos.get(trail.data.slug).catch((error) => (error.status === 404 ? null : Promise.reject(error)));
  if (folder) await photos.delete(folder.id, { recursive: true });
  await pilotis.rows("trails").delete(trail.id);
  go("");
}

const written = (points) => points.map(({ data: { name, place } }) => `${name}, ${place.latitude}, ${place.longitude}`).join("\n");

/** Reads way points, one in each line: a name, a latitude and a longitude. */
function pointsOf(text) {
  return text.split("\n").map((line) => line.trim()).filter(Boolean).map((line) => {
    const [, name, latitude, longitude] = line.match(/^(.+?),\s*(-?[\d.]+),\s*(-?[\d.]+)$/) ?? [];
    if (!name) throw new Error(`“${line}” is not a name, a latitude and a longitude.`);
    return { name, place: { latitude: Number(latitude), longitude: Number(longitude) } };
  });
}

function distance(points) {
  const rad = (degrees) => (degrees * Math.PI) / 180;
  const legs = points.slice(1).map(({ place: to }, number) => {
    const from = points[number].place;
    const half = Math.sin(rad(to.latitude - from.latitude) / 2) ** 2 + Math.cos(rad(from.latitude)) * Math.cos(rad(to.latitude)) * Math.sin(rad(to.longitude - from.longitude) / 2) ** 2;
    return 12_742 * Math.asin(Math.sqrt(half));
  });
  return Math.round(legs.reduce((sum, leg) => sum + leg, 0) * 10) / 10;
}

async function editor(show, slug) {
  const trail = slug && await pilotis.rows("trails").by("slug", slug).get();
  const before = slug ? (await pilotis.rows("waypoints").where({ trail: slug }).orderBy("position").limit(100)).rows : [];
  const { title = "", text = "", difficulty = "moderate", is_public = false } = trail?.data ?? {};
  const made = form([
    { name: "title", label: "Title", value: title, maxLength: 80 }, { name: "text", label: "What it is like", kind: "textarea", rows: 4, value: text },
    { name: "difficulty", label: "Difficulty", kind: "select", options: DIFFICULTIES.map((name) => [name, name]) },
    { name: "points", label: "Way points, one in each line: name, latitude, longitude", kind: "textarea", rows: 6, value: written(before), placeholder: "Car park, 47.2005, 11.4302" },
    { name: "public", label: "everybody may find it", type: "checkbox", required: false, checked: is_public },
  ], "Save", async (values) => {
    const points = pointsOf(values.points);
    const data = { title: values.title, text: values.text, difficulty: values.difficulty, is_public: values.public === "on", km: distance(points), place: points[0].place };
    const to = slug ?? `${values.title.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "").slice(0, 40)}-${crypto.randomUUID().slice(0, 10)}`.replace(/^-/, "");
    await pilotis.transaction((t) => {
      if (trail) t.update("trails", trail, data);
      else t.create("trails", { slug: to, author: me.data.username, ...data });
      for (const point of before) t.delete("waypoints", point);
      points.forEach((point, position) => t.create("waypoints", { trail: to, position, ...point }));
    });
    go(`t/${to}`);
  });
  made.elements.difficulty.value = difficulty;
  show(h("h1", {}, slug ? "Edit the trail" : "A new trail"), made);
}

function entrance(show, isNew) {
  show(h("h1", {}, isNew ? "Sign up" : "Sign in"), form([
    { name: "login_id", label: "Name", autocomplete: "username" },
    { name: "password", label: "Password", type: "password", autocomplete: isNew ? "new-password" : "current-password" },
  ], isNew ? "Sign up" : "Sign in", async (values) => {
    await pilotis.members[isNew ? "signUp" : "signIn"](values);
    // A sign-up that was cut off before its profile goes on here.
    me = (await pilotis.rows("profiles").where(MINE).first()) ?? (await pilotis.rows("profiles").create({ username: values.login_id }));
    go("");
  }), link(isNew ? "sign-in" : "sign-up", isNew ? "I have an account" : "I need an account"));
}

// ---- Addresses

let opened = 0;
const route = attempt(async () => {
  const number = ++opened;
  const show = (...children) => {
    if (number !== opened) throw new Left();
    document.querySelector("main").replaceChildren(...children.filter(Boolean));
  };
  stop();
  stop = () => {};
  document.querySelector("nav").replaceChildren(link("", "Trails"), ...(me ? [link("edit", "New trail"), h("span", {}, me.data.username), button("Sign out", () => pilotis.members.signOut(), { class: "quiet" })] : [link("sign-in", "Sign in"), link("sign-up", "Sign up")]));
  const [first, second, third] = location.hash.slice(2).split("/");
  if (first === "t") return trailPage(show, second, third);
  if (first === "sign-in" || first === "sign-up" || (first === "edit" && !me)) return entrance(show, first === "sign-up");
  return first === "edit" ? editor(show, second) : home(show);
});
const go = (to) => (location.hash === `#/${to}` ? route() : (location.hash = `#/${to}`));
addEventListener("hashchange", route);
pilotis.members.onChange((event) => {
  if (event.type !== "signed_out") return;
  me = null;
  go("");
});
if (await pilotis.members.session()) me = await pilotis.rows("profiles").where(MINE).first();
route();
