import config from "./config.js";

const { createClient, isApiError } = await import(`${config.url}/sdk/v1/pilotis.js`);
const pilotis = createClient(config);
const [customers, products, invoices, payouts, samples] = ["customers", "products", "invoices", "payouts", "samples"].map((title) => pilotis.rows(title));
const MEMBERS = "/v1/public/app-members";
const PAGE = 8;
const STATES = { draft: "Draft", sent: "Sent", paid: "Paid" };
const SORTS = {
  "Newest": [["issued", "desc"], ["number", "desc"]],
  "Due first": [["due", "asc"], ["cents", "desc"]],
  "State, then amount": [["state", "asc"], ["cents", "desc"]],
  "Largest": [["cents", "desc"], ["issued", "desc"]],
};

let signedIn = false;
const stops = [];

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
const money = (cents) => (cents / 100).toLocaleString("en", { style: "currency", currency: "EUR" });
const day = (text) => new Date(text).toLocaleDateString("en", { day: "numeric", month: "short", year: "numeric" });
const inCents = (text) => Math.round(Number(text) * 100);
const today = (days = 0) => new Date(Date.now() + days * 86_400_000).toISOString().slice(0, 10);
const badge = ({ state, due }) => {
  const isLate = state === "sent" && due < today();
  return h("span", { class: `badge ${isLate ? "late" : state}` }, isLate ? "Late" : STATES[state]);
};

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
    if (!(error instanceof Left)) alert.textContent = isApiError(error, "UNIQUE_VIOLATION") ? "This name or number is taken." : error.message;
  }
};

function input({ label, kind = "input", options, ...rest }) {
  const field = h(kind, { required: true, ...rest }, ...(options ?? []).map(([value, text]) => h("option", { value }, text)));
  return h("label", {}, label, field);
}

const form = (fields, send, run, ...more) =>
  h("form", { onsubmit: attempt((form) => run(Object.fromEntries(new FormData(form)), form)) }, fields.map(input), ...more, h("button", { class: "main" }, send));

// ---- Members and organisations

function entrance(show, isNew) {
  show(h("div", { class: "card" }, h("h1", {}, isNew ? "Sign up" : "Sign in"), form([
    { name: "login_id", label: "Name", autocomplete: "username" },
    { name: "password", label: "Password", type: "password", autocomplete: isNew ? "new-password" : "current-password" },
  ], isNew ? "Sign up" : "Sign in", async (values) => {
    try {
      await pilotis.members[isNew ? "signUp" : "signIn"](values);
    } catch (error) {
      if (!isApiError(error, "SECOND_FACTOR_REQUIRED")) throw error;
      return secondFactor(show, error.body.ticket);
    }
    entered();
  }), button(isNew ? "I have an account" : "I need an account", () => entrance(show, !isNew), { class: "quiet" })));
}

const CODE = { name: "totp", label: "Code of your authenticator app", inputMode: "numeric", autocomplete: "one-time-code", pattern: "[0-9]{6}" };
const secondFactor = (show, ticket) =>
  show(h("div", { class: "card" }, h("h1", {}, "One more step"), form([CODE], "Sign in", async ({ totp }) => {
    await pilotis.members.setSession(await pilotis.request("POST", `${MEMBERS}/second-factor`, { body: { ticket, totp } }));
    entered();
  })));

const entered = () => ((signedIn = true), route());

async function organisations(show) {
  const { teams } = await pilotis.request("GET", `${MEMBERS}/teams`);
  const make = async ({ name, examples }) => {
    const team = await pilotis.request("POST", `${MEMBERS}/teams`, { body: { name } });
    if (examples) await fill(team);
    go(team.team_id);
  };
  show(h("div", { class: "card" }, h("h1", {}, "Organisations"),
    h("ul", { class: "list" }, teams.map((team) => h("li", {}, link(team.team_id, {}, team.name, h("small", {}, team.roles.join(", ") || "reader"))))),
    form([{ name: "name", label: "Name of a new organisation", maxLength: 60 }], "Make an organisation", make,
      h("label", { class: "check" }, h("input", { type: "checkbox", name: "examples", checked: true }), "with examples")),
    button("Sign out", () => pilotis.members.signOut(), { class: "quiet" })));
}

/** Gives a new organisation customers, products and invoices to look at. */
async function fill({ team_id: team, name: seller }) {
  const { rows } = await samples.all().orderBy("number").limit(100);
  const named = new Map(rows.map(({ data }) => [data.customer, data.city]));
  await pilotis.transaction((t) => {
    const made = new Map([...named].map(([name, city]) => [name, t.create("customers", { team, name, city })]));
    for (const { data: { customer, city, name, quantity, cents, ...rest } } of rows) {
      t.create("products", { team, name, cents });
      t.create("invoices", { team, seller, ...rest, customer: made.get(customer), lines: [{ name, quantity, cents }], cents: quantity * cents });
    }
  });
}

async function invitation(show, token) {
  const { name, roles } = await pilotis.request("GET", `${MEMBERS}/invitations/${token}`);
  show(h("div", { class: "card" }, h("h1", {}, `Join ${name}`), h("p", {}, `as ${roles[0] ?? "reader"}`), button("Join", async () => {
    go((await pilotis.request("POST", `${MEMBERS}/invitations/accept`, { body: { token } })).team_id);
  }, { class: "main" })));
}

// ---- One organisation

const TABS = { "": "Invoices", customers: "Customers", products: "Products", payouts: "Payouts" };

async function organisation(show, id, tab = "", invoice) {
  const found = await pilotis.request("GET", `${MEMBERS}/teams/${id}`);
  const team = { id, name: found.name, isOwner: found.roles.includes("owner"), writes: found.roles.some((role) => role === "owner" || role === "bookkeeper") };
  const invite = (role) => async () => {
    const { token } = await pilotis.request("POST", `${MEMBERS}/teams/${id}/invitations`, { body: { link: true, roles: role ? [role] : [], max_uses: 20 } });
    document.getElementById("invitation").textContent = `${location.origin}${location.pathname}#/join/${token}`;
  };
  const place = h("section", { label: TABS[tab] ?? "Invoice" });
  show(h("header", {}, link("", { label: "Organisations" }, "←"), h("strong", {}, team.name),
    h("nav", { label: "Organisation" }, Object.entries(TABS).map(([to, text]) => link(to ? `${id}/${to}` : id, { ariaCurrent: to === tab ? "page" : null }, text)))), place,
    team.isOwner && h("footer", {}, button("Invite a bookkeeper", invite("bookkeeper")), button("Invite a reader", invite("")), h("output", { id: "invitation" })));
  if (tab === "customers") return catalogue(place, team, customers, [{ name: "name", label: "Name" }, { name: "city", label: "City", required: false }], (data) => data.city);
  if (tab === "products") return catalogue(place, team, products, [{ name: "name", label: "Name" }, PRICE], (data) => money(data.cents));
  if (tab === "payouts") return payoutPage(place, team);
  if (tab === "new" || tab === "edit") return editor(place, team, tab === "edit" ? invoice : null);
  return tab ? invoicePage(place, team, tab) : listPage(place, team);
}

const PRICE = { name: "price", label: "Price in €", type: "number", min: "0", step: "0.01" };

async function catalogue(place, team, table, fields, detail) {
  const list = h("ul", { class: "list" });
  place.append(list);
  if (team.writes) place.append(form(fields, "Add", async ({ price, ...values }, form) => {
    await table.create({ team: team.id, ...values, ...(price && { cents: inCents(price) }) });
    form.reset();
  }));
  stops.push(table.where({ team: team.id }).orderBy("name", "asc", { ignoreCase: true }).limit(200).live((rows) =>
    list.replaceChildren(...rows.map((row) => h("li", {}, h("span", {}, row.data.name, h("small", {}, detail(row.data) ?? "")), team.writes && button("Delete", () => table.delete(row.id), { class: "quiet" }))))));
}

// ---- Invoices

async function listPage(place, team) {
  const sums = await invoices.aggregate([{ $match: { team: team.id } }, { $group: { _id: "$state", cents: { $sum: "$cents" }, many: { $sum: 1 } } }]);
  const list = h("tbody");
  const total = h("output");
  const more = h("div", { class: "more" });
  const filters = h("form", { class: "filters", oninput: attempt(() => read()), onsubmit: (event) => event.preventDefault() }, [
    { name: "text", label: "Text", type: "search" }, { name: "least", label: "From €", type: "number", min: "0" }, { name: "most", label: "To €", type: "number", min: "0" },
    { name: "since", label: "Since", type: "date" }, { name: "until", label: "Until", type: "date" },
    { name: "state", label: "State", kind: "select", options: [["", "All"], ...Object.entries(STATES)] },
    { name: "sort", label: "Order", kind: "select", options: Object.keys(SORTS).map((name) => [name, name]) },
  ].map((field) => input({ ...field, required: false })));
  place.append(
    h("div", { class: "tiles" }, Object.entries(STATES).map(([state, text]) => {
      const sum = sums.find((one) => one._id === state);
      return h("div", { class: state }, text, h("strong", {}, money(sum?.cents ?? 0)), h("small", {}, `${sum?.many ?? 0} invoices`));
    })),
    h("details", { open: innerWidth > 768 }, h("summary", {}, "Find and sort"), filters), h("div", { class: "row" }, total, team.writes && link(`${team.id}/new`, { class: "main" }, "New invoice")), h("table", {}, list), more);
  let asked = 0;
  async function read(cursor = null) {
    const number = ++asked;
    more.replaceChildren();
    const { text, least, most, since, until, state, sort } = Object.fromEntries(new FormData(filters));
    const where = { team: team.id, $and: [
      text && { $or: [{ subject: { $icontains: text } }, { number: { $istartsWith: text } }, { "customer.name": { $icontains: text } }] },
      least && { cents: { $gte: inCents(least) } }, most && { cents: { $lte: inCents(most) } },
      since && { issued: { $gte: since } }, until && { issued: { $lte: until } }, state && { state },
    ].filter(Boolean) };
    const found = invoices.where(where);
    const query = SORTS[sort].reduce((query, key) => query.orderBy(...key), found.expand("customer").limit(PAGE));
    const [page, many] = await Promise.all([query.page({ cursor }), cursor === null && found.count()]);
    if (number !== asked) return;
    const rows = page.rows.map(({ id, data, expanded }) => h("tr", {},
      h("td", {}, link(`${team.id}/${id}`, {}, data.subject), h("small", {}, `${data.number} · ${expanded.customer?.data.name ?? ""}`)),
      h("td", {}, day(data.issued), h("small", {}, `due ${day(data.due)}`)), h("td", {}, badge(data)), h("td", { class: "sum" }, money(data.cents))));
    if (cursor) list.append(...rows);
    else list.replaceChildren(...rows), (total.textContent = many === 1 ? "1 invoice" : `${many} invoices`);
    more.replaceChildren(...(page.cursor ? [button("Show more", () => read(page.cursor))] : []));
  }
  await read();
}

/** An invoice as its customer sees it. */
const paper = ({ data, expanded }) =>
  h("article", { class: "paper" }, h("div", { class: "row" }, h("h1", {}, data.subject), badge(data)),
    h("p", {}, `Invoice ${data.number} of ${data.seller}`),
    h("p", {}, h("strong", {}, expanded.customer?.data.name ?? ""), h("br"), expanded.customer?.data.city ?? ""),
    h("p", {}, `${day(data.issued)}, to be paid until ${day(data.due)}`),
    h("table", {}, h("tbody", {}, data.lines.map((line) => h("tr", {}, h("td", {}, line.name, h("small", {}, `${line.quantity} × ${money(line.cents)}`)), h("td", { class: "sum" }, money(line.quantity * line.cents))))),
      h("tfoot", {}, h("tr", {}, h("td", {}, "Total"), h("td", { class: "sum" }, money(data.cents))))));

async function invoicePage(place, team, id) {
  const shown = h("div");
  place.append(shown);
  stops.push(invoices.where({ id }).expand("customer").live(([row]) => {
    if (!row) return go(team.id);
    const { state, secret } = row.data;
    const set = (state) => () => invoices.update(row, { state });
    shown.replaceChildren(paper(row), h("div", { class: "row" },
      team.writes && state === "draft" && button("Send", set("sent"), { class: "main" }),
      team.writes && state === "draft" && link(`${team.id}/edit/${id}`, { class: "button" }, "Edit"),
      team.writes && state === "draft" && button("Delete", () => invoices.delete(row), { class: "quiet" }),
      team.writes && state === "sent" && button("Mark as paid", set("paid"), { class: "main" }),
      state !== "draft" && link(`i/${id}/${secret}`, { class: "quiet", target: "_blank" }, "The customer's page")));
  }));
}

/** What the customer sees, who has no account: the text behind the id lets it in. */
async function publicPage(show, id, secret) {
  const invoice = await createClient({ ...config, capabilities: { invoice: secret } }).rows("invoices").get(id, { expand: ["customer"] });
  show(h("section", { label: "Invoice" }, paper(invoice), button("Print", () => print())));
}

async function editor(place, team, id) {
  const [known, sold, invoice] = await Promise.all([
    customers.where({ team: team.id }).orderBy("name").limit(200), products.where({ team: team.id }).orderBy("name").limit(200), id && invoices.get(id)]);
  const { number = "", subject = "", issued = today(), due = today(28), customer, lines = [{}] } = invoice?.data ?? {};
  const prices = new Map(sold.rows.map((row) => [row.data.name, row.data.cents]));
  const lineOf = (line) => h("div", { class: "line" },
    input({ name: "name", label: "What", value: line.name ?? "", kind: "input", maxLength: 80, oninput: (event) => {
      const cents = prices.get(event.target.value);
      if (cents !== undefined) event.target.closest(".line").querySelector("[name=price]").value = cents / 100;
    } }),
    input({ name: "quantity", label: "How many", type: "number", min: "1", value: line.quantity ?? 1 }), input({ ...PRICE, value: line.cents === undefined ? "" : line.cents / 100 }));
  const all = h("div", {}, lines.map(lineOf));
  const made = form([
    { name: "number", label: "Number", value: number, maxLength: 20 }, { name: "subject", label: "Subject", value: subject, maxLength: 120 },
    { name: "customer", label: "Customer", kind: "select", options: known.rows.map((row) => [row.id, row.data.name]) },
    { name: "issued", label: "Date", type: "date", value: issued }, { name: "due", label: "To be paid until", type: "date", value: due },
  ], "Save", async ({ number, subject, customer, issued, due }) => {
    const lines = [...all.children].map((line) => {
      const [name, quantity, price] = [...line.querySelectorAll("input")].map((field) => field.value);
      return { name, quantity: Number(quantity), cents: inCents(price) };
    });
    const data = { number, subject, customer, issued, due, lines, cents: lines.reduce((sum, line) => sum + line.quantity * line.cents, 0) };
    const row = invoice ? await invoices.update(invoice, data) : await invoices.create({ team: team.id, seller: team.name, ...data });
    go(`${team.id}/${row.id}`);
  }, all, button("Add a line", () => all.append(lineOf({})), { class: "quiet" }));
  for (const field of made.querySelectorAll("[name=name]")) field.setAttribute("list", "products");
  if (customer) made.elements.customer.value = customer;
  place.append(h("h1", {}, invoice ? "Edit the invoice" : "New invoice"), made, h("datalist", { id: "products" }, [...prices.keys()].map((value) => h("option", { value }))));
}

// ---- Payouts

async function payoutPage(place, team) {
  const list = h("ul", { class: "list" });
  place.append(list);
  if (team.isOwner) place.append(form([
    { name: "payee", label: "To", maxLength: 80 }, { name: "iban", label: "IBAN", minLength: 15, maxLength: 42 }, { ...PRICE, name: "amount", label: "Amount in €" },
  ], "Pay out", ({ amount, ...values }) => confirmed(place, async () => {
    await payouts.create({ team: team.id, ...values, cents: inCents(amount) });
    route();
  })));
  stops.push(payouts.where({ team: team.id }).orderBy("created_at", "desc").limit(50).live((rows) =>
    list.replaceChildren(...rows.map((row) => h("li", {}, h("span", {}, row.data.payee, h("small", {}, `${day(row.created_at)} · ${row.data.iban}`)), h("strong", {}, money(row.data.cents)))))));
}

/** Asks for the code of the authenticator app before `run`; the rules of payouts take nothing else. */
async function confirmed(place, run) {
  const { totp } = await pilotis.request("GET", `${MEMBERS}/me/factors`);
  const ask = (...children) => place.replaceChildren(h("h1", {}, "Is it you?"), ...children);
  if (totp) return ask(form([CODE], "Confirm", async (values) => (await pilotis.request("POST", `${MEMBERS}/me/reauthenticate`, { body: values }), run())));
  ask(h("p", {}, "Payouts take an authenticator app. Your password first:"), form([{ name: "password", label: "Password", type: "password" }], "Set it up", async (values) => {
    await pilotis.request("POST", `${MEMBERS}/me/reauthenticate`, { body: values });
    const { qr, secret } = await pilotis.request("POST", `${MEMBERS}/me/totp`);
    ask(h("p", {}, "Scan this with the app, or type ", h("code", {}, secret)), h("div", { class: "qr", innerHTML: qr }), form([CODE], "Confirm", async ({ totp }) => {
      const { recovery_codes: codes } = await pilotis.request("POST", `${MEMBERS}/me/totp/confirm`, { body: { code: totp } });
      ask(h("p", {}, "Keep these codes for the day on which the phone is lost: ", h("code", {}, codes.join(" "))), button("Pay out", run, { class: "main" }));
    }));
  }));
}

// ---- Addresses

let opened = 0;
const route = attempt(async () => {
  const number = ++opened;
  const show = (...children) => {
    if (number !== opened) throw new Left();
    document.querySelector("main").replaceChildren(...children.filter(Boolean));
  };
  for (const stop of stops.splice(0)) stop();
  const [first, second, third] = location.hash.slice(2).split("/");
  if (first === "i") return publicPage(show, second, third);
  if (!signedIn) return entrance(show, !first || first === "join");
  if (first === "join") return invitation(show, second);
  return first ? organisation(show, first, second, third) : organisations(show);
});
const go = (to) => (location.hash === `#/${to}` ? route() : (location.hash = `#/${to}`));
addEventListener("hashchange", route);
pilotis.members.onChange((event) => {
  if (event.type !== "signed_out") return;
  signedIn = false;
  go("");
});
signedIn = Boolean(await pilotis.members.session());
route();
