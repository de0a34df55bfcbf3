import config from "./config.js";

const { createClient } = await import(`${config.url}/sdk/v1/pilotis.js`);
const pilotis = createClient(config);
const [tickets, messages] = ["tickets", "messages"].map((title) => pilotis.rows(title));
const attachments = pilotis.files("attachments");
const SIGN_IN = "/v1/public/app-members/email-sign-in";
const STATES = { open: "Open", waiting: "Waiting", solved: "Solved" };
const LETTERS = "abcdefghjkmnpqrstuvwxyz23456789";
const SHOWN = 100;
/** For how many seconds the address of an attachment works. */
const DAY = 86_400;

/** The account of who is signed in; null for a visitor. */
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

const link = (to, properties, ...children) => h("a", { href: `#/${to}`, ...properties }, ...children);
const button = (text, run, properties = {}) => h("button", { type: "button", onclick: attempt(run), ...properties }, text);
const badge = (state) => h("span", { class: `badge ${state}` }, STATES[state]);

function ago(text) {
  const minutes = Math.max(0, Math.round((Date.now() - new Date(text)) / 60_000));
  if (minutes < 60) return minutes ? `${minutes} min` : "now";
  return minutes < 1440 ? `${Math.round(minutes / 60)} h` : new Date(text).toLocaleDateString("en", { day: "numeric", month: "short" });
}

/** Another place was opened while this one was read. */
class Left extends Error {}

/** Runs what a button or form asks for, and tells what went wrong. */
const attempt = (run) => async (event) => {
  event?.preventDefault?.();
  const alert = document.getElementById("error");
  alert.textContent = "";
  const pressed = event?.submitter ?? null;
  if (pressed) pressed.disabled = true;
  try {
    await run(event?.currentTarget ?? event?.target);
  } catch (error) {
    if (!(error instanceof Left)) alert.textContent = error.message;
  } finally {
    if (pressed) pressed.disabled = false;
  }
};

function form(fields, send, run) {
  const inputs = fields.map(({ label, kind = "input", ...rest }) => h("label", {}, label, h(kind, { required: true, ...rest })));
  return h("form", { onsubmit: attempt((form) => run(Object.fromEntries(new FormData(form)), form)) }, ...inputs, h("button", { class: "main" }, send));
}

// ---- Who comes

/** What a visitor has written waits here until the mailed link is opened. */
const draft = {
  get: () => JSON.parse(localStorage.getItem("helpdesk:draft")),
  set: (values) => (values ? localStorage.setItem("helpdesk:draft", JSON.stringify(values)) : localStorage.removeItem("helpdesk:draft")),
};

async function mailLink(show, { email, ...question }) {
  await pilotis.request("POST", SIGN_IN, { body: { email, redirect_uri: location.origin + location.pathname } });
  draft.set(question.subject ? question : null);
  show(h("div", { class: "card" }, h("h1", {}, "Look into your mail"),
    h("p", {}, "A link is on its way to ", h("strong", {}, email), question.subject ? ". Open it here, and your message is sent." : ". Open it to see your tickets."),
    link("", { class: "quiet", onclick: routed }, "Use another address")));
}

const ADDRESS = { name: "email", label: "Your e-mail address", type: "email", autocomplete: "email" };
const QUESTION = [
  { name: "subject", label: "What is it about?", maxLength: 120 },
  { name: "text", label: "Your message", kind: "textarea", rows: 6, maxLength: 8000 },
];
const NAME = { name: "customer", label: "Your name", autocomplete: "name", maxLength: 60 };

const welcome = (show) =>
  show(h("div", { class: "card" }, h("h1", {}, "How can we help?"), h("p", {}, "We answer here, and you need no password."),
    form([NAME, ADDRESS, ...QUESTION], "Send", (values) => mailLink(show, values)),
    link("return", { class: "quiet" }, "I have written before")));

const comeBack = (show) =>
  show(h("div", { class: "card" }, h("h1", {}, "See your tickets"), form([ADDRESS], "Mail me a link", (values) => mailLink(show, values)),
    link("", { class: "quiet" }, "I have a new question")));

/** Programs that check mails open links, too: what this one does takes a button. */
const arrived = (show, token) =>
  show(h("div", { class: "card" }, h("h1", {}, "Welcome"), h("p", {}, draft.get() ? "Your message is ready to be sent." : "Your tickets are waiting."),
    button("Continue", async () => {
      await pilotis.members.setSession(await pilotis.request("POST", `${SIGN_IN}/confirm`, { body: { token } }));
      await identify();
      const question = draft.get();
      if (!question) return go("");
      if (question.customer !== me.nickname) await pilotis.members.update({ nickname: question.customer });
      await ask(question);
      draft.set(null);
    }, { class: "main" })));

async function identify() {
  me = await pilotis.members.account();
  me.isLead = me.roles.includes("lead");
  me.isAgent = me.isLead || me.roles.includes("agent");
  me.name = me.nickname ?? me.email;
}

async function ask({ customer, subject, text }) {
  const letters = [...crypto.getRandomValues(new Uint8Array(7))].map((byte) => LETTERS[byte % LETTERS.length]).join("");
  const code = `${letters.slice(0, 4)}-${letters.slice(4)}`;
  await pilotis.transaction((t) => {
    t.create("tickets", { code, customer, subject });
    t.create("messages", { ticket: code, text, by_agent: false });
  });
  go(code);
}

// ---- Lists

const entry = (ticket, current) =>
  link(ticket.data.code, { ariaCurrent: ticket.data.code === current ? "page" : null },
    h("strong", {}, ticket.data.subject), h("time", {}, ago(ticket.updated_at)),
    h("span", {}, me.isAgent ? ticket.data.customer : ticket.data.code), me.isAgent ? h("span", {}, ticket.data.agent ?? "") : badge(ticket.data.state));

function follow(list, query, current, told) {
  stops.push(query.orderBy("updated_at", "desc").limit(SHOWN).live((rows) => {
    list.replaceChildren(...rows.map((row) => h("li", {}, entry(row, current))));
    if (!rows.length) list.append(h("li", { class: "empty" }, "Nothing here."));
    if (told) attempt(told)();
  }));
}

function mine(show) {
  const list = h("ul", { class: "tickets", label: "Your tickets" });
  show(h("div", { class: "card wide" }, h("h1", {}, "Your tickets"), list,
    h("details", {}, h("summary", {}, "Ask something else"), form(QUESTION, "Send", (values) => ask({ ...values, customer: me.name })))));
  follow(list, tickets.all(), null);
}

/** Customers see who answers. */
const introduce = (show) =>
  show(h("div", { class: "card" }, h("h1", {}, "What do customers call you?"), form([{ ...NAME, name: "nickname" }], "Go to the desk", async (values) => {
    await pilotis.members.update(values);
    await identify();
    routed();
  })));

/** The agents' list of one state, with how many there are of each, beside one ticket. */
let shownState = "open";
function desk(show, code) {
  const list = h("ul", { class: "tickets", label: "Tickets" });
  const tabs = Object.entries(STATES).map(([state, text]) =>
    button([text, h("b", {})], () => ((shownState = state), go("")), { ariaPressed: String(state === shownState) }));
  const pane = h("section", { class: "pane" }, h("p", { class: "empty" }, "Choose a ticket."));
  show(h("div", { class: code ? "desk opened" : "desk" }, h("aside", {}, h("div", { class: "tabs", role: "group", label: "State" }, tabs), list), pane));
  follow(list, tickets.where({ state: shownState }), code, async () => {
    const many = new Map((await tickets.aggregate([{ $group: { _id: "$state", many: { $sum: 1 } } }])).map((one) => [one._id, one.many]));
    Object.keys(STATES).forEach((state, number) => (tabs[number].lastChild.textContent = many.get(state) ?? 0));
  });
  return pane;
}

// ---- One ticket

async function ticketPage(show, code) {
  const pane = me.isAgent ? desk(show, code) : h("div", { class: "card wide" });
  let ticket = await tickets.by("code", code).get();
  const head = h("header", { class: "head" });
  const list = h("ol", { class: "messages", label: "Messages" });
  const work = me.isAgent && noteOf(ticket);
  if (me.isAgent) pane.replaceChildren(head, list, work, answer());
  else show(pane), pane.append(head, list, answer());

  function answer() {
    const files = h("input", { name: "files", type: "file", multiple: true, accept: "image/*,application/pdf,text/plain" });
    const chosen = h("span", {}, "Attach pictures, PDF or text");
    const told = () => (chosen.textContent = [...files.files].map((file) => file.name).join(", ") || "Attach pictures, PDF or text");
    const text = { name: "text", label: me.isAgent ? `Answer to ${ticket.data.customer}` : "Your message", kind: "textarea", rows: 3, maxLength: 8000 };
    const made = form([text], "Send", async ({ text }, form) => {
      const files = await Promise.all([...form.files.files].slice(0, 5).map((file) => attach(code, file)));
      await pilotis.transaction((t) => {
        t.create("messages", { ticket: code, text, by_agent: me.isAgent, files });
        t.update("tickets", ticket.id, { state: me.isAgent ? "waiting" : "open" });
      });
      form.reset();
    });
    made.lastChild.before(h("label", { class: "file", oninput: told }, files, chosen));
    made.addEventListener("reset", () => setTimeout(told));
    return made;
  }

  const drawn = new Map();
  stops.push(
    tickets.where({ code }).live((rows) => {
      if (!rows.length) return go("");
      ticket = rows[0];
      head.replaceChildren(...headOf(ticket));
    }),
    messages.where({ ticket: code }).orderBy("created_at").live((rows) => {
      // What is drawn stays, so that no picture is loaded again.
      list.replaceChildren(...rows.map((row) => drawn.get(row.id) ?? drawn.set(row.id, message(row)).get(row.id)));
      list.lastElementChild?.scrollIntoView({ block: "nearest" });
    }),
  );
}

function headOf(ticket) {
  const { subject, state, customer, agent, code } = ticket.data;
  const set = (data) => () => tickets.update(ticket.id, data);
  const who = agent === me.name ? "yours" : agent ? (me.isAgent ? `with ${agent}` : `${agent} looks after it`) : me.isAgent && "nobody's yet";
  return [
    link("", { class: "back", label: "Back to the list" }, "←"),
    h("div", {}, h("h1", {}, subject, " ", badge(state)), h("p", {}, [me.isAgent && customer, code, who].filter(Boolean).join(" · "))),
    h("div", { class: "row" },
      me.isAgent && agent !== me.name && button("Take it", set({ agent: me.name })),
      state !== "solved" && button(me.isAgent ? "Solved" : "This is solved", set({ state: "solved" })),
      state !== "open" && button("Open again", set({ state: "open" })),
      me.isLead && button("Delete", () => remove(ticket), { class: "quiet" })),
  ];
}

/** What is attached does not go with the ticket by itself. */
async function remove(ticket) {
  const folder = await attachments.get(ticket.data.code).catch((error) => (error.status === 404 ? null : Promise.reject(error)));
  if (folder) await attachments.delete(folder.id, { recursive: true });
  await tickets.delete(ticket.id);
}

const noteOf = (ticket) =>
  h("label", { class: "note" }, "Note for agents, which no customer sees",
    h("textarea", { value: ticket.data.note ?? "", rows: 2, maxLength: 4000, onchange: attempt((field) => tickets.update(ticket.id, { note: field.value })) }));

function message({ data, created_at }) {
  const isMine = data.by_agent === me.isAgent;
  return h("li", { class: isMine ? "mine" : "" },
    h("p", { class: "by" }, h("strong", {}, data.author ?? (data.by_agent ? "Support" : "Customer")), h("time", {}, ago(created_at))),
    h("p", { class: "text" }, data.text), (data.files ?? []).length > 0 && h("ul", { class: "files" }, data.files.map(attachment)));
}

async function attach(code, file) {
  const { id, name, mime_type: type } = await attachments.upload(file, { path: `${code}/${crypto.randomUUID()}/${file.name}` });
  return { id, name, type };
}

function attachment({ id, name, type }) {
  const picture = String(type).startsWith("image/") && h("img", { alt: "" });
  const shown = h("a", { target: "_blank", rel: "noopener" }, picture, name);
  attempt(async () => {
    shown.href = (await attachments.signedUrl(id, DAY)).url;
    if (picture) picture.src = `${shown.href}&width=320`;
  })();
  return h("li", {}, shown);
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
  const place = location.hash.slice(1);
  const [, code] = place.split("/");
  document.querySelector("nav").replaceChildren(...(me ? [h("span", {}, me.name), button("Sign out", () => pilotis.members.signOut(), { class: "quiet" })] : []));
  if (place.startsWith("ms_")) return arrived(show, place);
  if (!me) return code ? comeBack(show) : welcome(show);
  if (me.isAgent && !me.nickname) return introduce(show);
  if (code && code !== "return") return ticketPage(show, code);
  return me.isAgent ? void desk(show) : mine(show);
});
const routed = () => void route();
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
