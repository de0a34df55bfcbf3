import config from "./config.js";

const { createClient, isApiError } = await import(`${config.url}/sdk/v1/pilotis.js`);
const pilotis = createClient(config);
const [profiles, rooms, messages, visits] = ["profiles", "rooms", "messages", "visits"].map((title) => pilotis.rows(title));
const SHOWN = 100;
const TEAMS = "/v1/public/app-members/teams";
const INVITATIONS = "/v1/public/app-members/invitations";
const TYPING = 3000;

/** The profile of the member who is signed in; null for a visitor. */
let me = null;
let stops = [];

// ---- Elements

function h(tag, properties = {}, ...children) {
  const { class: className = "", label, ...rest } = properties;
  const element = Object.assign(document.createElement(tag), rest, { className });
  if (label) element.setAttribute("aria-label", label);
  element.append(...children.flat().filter((child) => child !== null && child !== false && child !== undefined));
  return element;
}

const link = (to, ...children) => h("a", { href: `#/${to}` }, ...children);
const button = (text, run, properties = {}) => h("button", { type: "button", onclick: attempt(run), ...properties }, text);
const clock = (text) => new Date(text).toLocaleTimeString("en", { hour: "2-digit", minute: "2-digit", hour12: false });

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
    alert.textContent = isApiError(error, "UNIQUE_VIOLATION") ? "This name is taken." : error.message;
  }
};

function form(fields, send, run) {
  const inputs = fields.map(({ label, ...rest }) => h("label", {}, label, h("input", { required: true, ...rest })));
  return h("form", { onsubmit: attempt((form) => run(Object.fromEntries(new FormData(form)), form)) }, ...inputs, h("button", { class: "main" }, send));
}

// ---- Members and workspaces

function entrance(show, isNew) {
  show(h("div", { class: "card" }, h("h1", {}, isNew ? "Sign up" : "Sign in"), form([
    { name: "login_id", label: "Name", autocomplete: "username" },
    { name: "password", label: "Password", type: "password", autocomplete: isNew ? "new-password" : "current-password" },
  ], isNew ? "Sign up" : "Sign in", async (values) => {
    await pilotis.members[isNew ? "signUp" : "signIn"](values);
    await identify(values.login_id);
    routed();
  }), button(isNew ? "I have an account" : "I need an account", () => entrance(show, !isNew), { class: "quiet" })));
}

async function identify(name) {
  me = await profiles.where({ $creator: { $member: "id" } }).first();
  // A sign-up that was cut off before its profile goes on here.
  if (!me && name) me = await profiles.create({ username: name });
}

async function workspaces(show) {
  const { teams } = await pilotis.request("GET", TEAMS);
  show(h("div", { class: "card" }, h("h1", {}, "Workspaces"),
    h("ul", { class: "list" }, teams.map((team) => h("li", {}, link(team.team_id, team.name)))),
    form([{ name: "name", label: "Name of a new workspace", maxLength: 60 }], "Make a workspace", async ({ name }) => {
      const team = await pilotis.request("POST", TEAMS, { body: { name } });
      const room = await rooms.create({ team: team.team_id, name: "general" });
      go(`${team.team_id}/${room.id}`);
    }),
    button("Sign out", () => pilotis.members.signOut(), { class: "quiet" })));
}

async function invitation(show, token) {
  const { name } = await pilotis.request("GET", `${INVITATIONS}/${token}`);
  show(h("div", { class: "card" }, h("h1", {}, `Join ${name}`), button("Join", async () => {
    const { team_id: team } = await pilotis.request("POST", `${INVITATIONS}/accept`, { body: { token } });
    go(team);
  }, { class: "main" })));
}

// ---- One workspace

async function workspace(show, teamId, roomId) {
  const team = await pilotis.request("GET", `${TEAMS}/${teamId}`);
  const found = (await rooms.where({ team: teamId }).orderBy("name").limit(200)).rows;
  const room = found.find((one) => one.id === roomId) ?? found.find((one) => one.data.name === "general") ?? found[0];
  const isOwner = team.roles.includes("owner");
  const people = h("ul", { class: "people", label: "Here now" });
  const typing = h("output", { class: "typing" });
  const list = h("ol", { class: "messages", label: "Messages" });
  const entries = new Map(found.map((one) => [one.id, link(`${teamId}/${one.id}`, one.data.owners_only ? "◆ " : "# ", one.data.name, h("b", {}))]));
  show(h("div", { class: "desk" },
    h("nav", { label: "Rooms" },
      link("", "←"), h("h2", {}, team.name), [...entries.values()],
      isOwner && form([{ name: "name", label: "New room", maxLength: 40 }], "Add", async ({ name }, form) => {
        const made = await rooms.create({ team: teamId, name, owners_only: form.private.checked });
        go(`${teamId}/${made.id}`);
      }),
      isOwner && button("Invite", () => invite(teamId)), h("output", { id: "invitation" })),
    room ? h("section", { label: `Room ${room.data.name}` },
      h("header", {}, h("h1", {}, `# ${room.data.name}`), people), list, typing, writing(room)) : h("p", {}, "There is no room yet.")));
  const add = document.querySelector("nav form button");
  add?.before(h("label", { class: "check" }, h("input", { type: "checkbox", name: "private" }), "for owners alone"));
  if (!room) return;
  entries.get(room.id).setAttribute("aria-current", "page");
  const channel = pilotis.channel(`room:${room.id}`);
  const writers = new Map();
  stops = [
    messages.where({ room: room.id }).orderBy("created_at", "desc").limit(SHOWN).live((rows) => {
      list.replaceChildren(...rows.toReversed().map((row) => message(row, isOwner)));
      list.lastElementChild?.scrollIntoView({ block: "nearest" });
      attempt(() => visits.upsert("mine", { room: room.id, at: new Date().toISOString() }))();
    }),
    channel.on("typing", ({ name }) => {
      writers.set(name, Date.now());
      const tell = () => {
        const now = [...writers].filter(([who, at]) => who !== me.data.username && Date.now() - at < TYPING).map(([who]) => who);
        typing.textContent = now.length ? `${now.join(", ")} ${now.length === 1 ? "is" : "are"} writing …` : "";
      };
      tell();
      setTimeout(tell, TYPING + 100);
    }),
    channel.present((all) => {
      const names = [...new Set(all.map((one) => one.state.name))].sort();
      people.replaceChildren(...names.map((name) => h("li", {}, name)));
    }),
    () => channel.leave().catch(() => {}),
  ];
  await channel.enter({ name: me.data.username });
  await count(found.filter((one) => one.id !== room.id), entries);
}

/** Shows beside each room how much of it is unread. */
async function count(others, entries) {
  const read = await visits.where({ room: { $in: others.map((one) => one.id) } }).limit(200);
  const until = new Map(read.rows.map((row) => [row.data.room, row.data.at]));
  await Promise.all(others.map(async ({ id }) => {
    const since = until.has(id) ? { created_at: { $gt: until.get(id) } } : {};
    entries.get(id).lastChild.textContent = (await messages.where({ room: id, ...since }).count()) || "";
  }));
}

async function invite(team) {
  const { token } = await pilotis.request("POST", `${TEAMS}/${team}/invitations`, { body: { link: true, max_uses: 100 } });
  document.getElementById("invitation").textContent = `${location.origin}${location.pathname}#/join/${token}`;
}

function message(row, isOwner) {
  const isMine = row.data.author === me.data.username;
  const text = h("p", {}, row.data.text);
  const edit = () => {
    const field = h("textarea", { value: row.data.text, label: "Your message", required: true });
    text.replaceWith(h("form", { onsubmit: attempt(() => messages.update(row, { text: field.value })) }, field, h("button", {}, "Save")));
    field.focus();
  };
  return h("li", {}, h("div", { class: "row" }, h("strong", {}, row.data.author), h("time", {}, clock(row.created_at)),
    row.updated_at !== row.created_at && h("small", {}, "edited"), isMine && button("Edit", edit, { class: "quiet" }),
    (isMine || isOwner) && button("Delete", () => messages.delete(row.id), { class: "quiet" })), text);
}

function writing(room) {
  const channel = pilotis.channel(`room:${room.id}`);
  let told = 0;
  return h("form", {
    class: "writing",
    onsubmit: attempt(async (form) => {
      const text = form.text.value;
      form.reset();
      told = 0;
      await messages.create({ room: room.id, author: me.data.username, text });
    }),
    oninput: () => {
      if (Date.now() - told < TYPING / 2) return;
      told = Date.now();
      channel.send("typing", { name: me.data.username }).catch(() => {});
    },
  }, h("input", { name: "text", label: `Message to ${room.data.name}`, maxLength: 4000, autocomplete: "off", required: true }), h("button", { class: "main" }, "Send"));
}

// ---- Addresses

let opened = 0;
const route = attempt(async () => {
  const number = ++opened;
  const show = (...children) => {
    if (number !== opened) throw new Left();
    document.querySelector("main").replaceChildren(...children);
  };
  for (const stop of stops) stop();
  stops = [];
  const [first, second] = location.hash.slice(2).split("/");
  if (!me) return entrance(show, !first || first === "join");
  if (first === "join") return invitation(show, second);
  return first ? workspace(show, first, second) : workspaces(show);
});
const routed = () => route();
function go(to) {
  if (location.hash === `#/${to}`) routed();
  else location.hash = `#/${to}`;
}
addEventListener("hashchange", routed);
pilotis.members.onChange((event) => {
  if (event.type !== "signed_out") return;
  me = null;
  go("");
});
if (await pilotis.members.session()) await identify();
routed();
