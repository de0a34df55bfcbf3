import config from "./config.js";
const pilotis = (await import(`${config.url}/sdk/v1/pilotis.js`)).createClient(config);
const [posts, comments, profiles, notes, shares] = ["posts", "comments", "profiles", "notes", "shares"].map((title) => pilotis.rows(title));
const $ = (id) => document.getElementById(id);
let profile = null, stops = [];

function element(tag, fields = {}, ...children) {
  const made = Object.assign(document.createElement(tag), fields);
  made.append(...children);
  return made;
}
const forms = new Map();
/** The form of a row, which stays the same while the list around it changes: somebody may be writing in it. */
function form(action, row, hint, textContent) {
  const made = forms.get(action + row) ?? element("form", {}, element("input", { type: "hidden", name: "row", value: row }),
    element("input", { name: "text", placeholder: hint, required: true }), element("button", { name: "action", value: action, textContent }));
  forms.set(action + row, made);
  return made;
}
function fill(id, children) {
  const active = document.activeElement;
  $(id).replaceChildren(...children);
  active.focus();
}

const actions = {
  signIn: ({ login_id, password }) => pilotis.members.signIn({ login_id, password }),
  signUp: ({ login_id, password }) => pilotis.members.signUp({ login_id, password }).then(({ member_id: member }) => profiles.create({ member, name: login_id })),
  signOut: () => pilotis.members.signOut(),
  forgot: ({ email }) => pilotis.members.requestPasswordReset({ email }),
  avatar: async ({ file }) => profiles.update(profile.id, { avatar: (await pilotis.files("avatars").upload(file)).url }),
  post: ({ text }) => posts.create({ text }),
  comment: ({ row, text }) => comments.create({ post: row, text, profile: profile.id }),
  note: ({ text }) => notes.create({ text, author: profile.data.member }),
  share: async ({ row, text }) => shares.create({ note: row, member: (await profiles.by("name", text).get()).data.member }),
};
addEventListener("submit", async (event) => {
  event.preventDefault();
  const { action, ...fields } = Object.fromEntries(new FormData(event.target, event.submitter));
  $("status").textContent = await actions[action](fields).then(() => (event.target.reset(), show(), ""), (error) => error.message);
});

function showPosts(rows) {
  fill("posts", rows.map(({ id, data, expanded }) => element("article", {}, element("p", { textContent: data.text }),
    ...expanded.comments.map(({ data, expanded }) => element("p", {},
      ...(expanded.profile.data.avatar ? [element("img", { src: `${expanded.profile.data.avatar}?width=48&format=webp`, alt: "" })] : []),
      `${expanded.profile.data.name}: ${data.text}`)),
    ...(profile ? [form("comment", id, "A comment", "Say")] : []))));
}
const showNotes = (rows) => fill("notes", rows.map(({ id, data }) => element("article", {}, element("p", { textContent: data.text }),
  ...(data.author === profile?.data.member ? [form("share", id, "A member's name", "Share")] : []))));

/** Shows what a query finds, and again after each change of some lists: one reading after the other, so that the newest is the last. */
function keep(query, show, ...lists) {
  let isDue = false, isOver = false, reading = Promise.resolve();
  const again = () => {
    if (!isDue) reading = reading.then(read, read);
    isDue = true;
  };
  async function read() {
    isDue = false;
    const found = isOver ? null : await query.run().catch(() => void setTimeout(again, 2000));
    if (found && !isOver) show(found.rows);
  }
  stops.push(() => (isOver = true), ...lists.map((list) => list.live(again)));
}

/** What a visitor, a member or an editor sees, kept true. */
async function show() {
  const account = (await pilotis.members.session()) && (await pilotis.members.account());
  profile = account && (await profiles.where({ member: account.member_id }).first());
  const is = { visitor: !account, member: !!profile, editor: !!account?.roles.includes("editor") };
  for (const [name, isShown] of Object.entries(is)) for (const one of document.querySelectorAll(`.${name}`)) one.hidden = !isShown;
  for (const stop of stops.splice(0)) stop();
  const latest = posts.all().orderBy("id", "desc").limit(50);
  keep(latest.expand({ comments: { from: "comments.post", limit: 100, expand: ["profile"] } }), showPosts, latest, comments, profiles);
  const mine = notes.all().orderBy("id", "desc").limit(50);
  if (profile) keep(mine, showNotes, mine, shares);
}
pilotis.members.onChange((event) => event.type === "refreshed" || show());
show();
