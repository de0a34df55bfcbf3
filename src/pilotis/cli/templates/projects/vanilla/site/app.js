import config from "./config.js";

const { createClient } = await import(`${config.url}/sdk/v1/pilotis.js`);
const pilotis = createClient(config);
const notes = pilotis.rows("notes");
const $ = (id) => document.getElementById(id);

/** Runs what a form or a button asks for, and shows what went wrong. */
const attempt = (work) => async (event) => {
  event.preventDefault();
  $("error").textContent = "";
  try {
    await work(event.target);
  } catch (error) {
    $("error").textContent = error.message;
  }
};

function item(note) {
  const [line, box, text] = ["li", "input", "span"].map((name) => document.createElement(name));
  box.type = "checkbox";
  box.checked = note.data.done;
  box.onchange = attempt(() => notes.update(note.id, { done: box.checked }));
  text.textContent = note.data.text;
  line.append(box, text);
  return line;
}

/** The page of a visitor, or of the member who is signed in. */
async function showMember() {
  const session = await pilotis.members.session();
  $("visitor").hidden = !!session;
  $("member").hidden = !session;
}

$("sign-in").onsubmit = attempt(async (form) => {
  const { login_id, password } = Object.fromEntries(new FormData(form));
  await pilotis.members.signIn({ login_id, password });
});
$("sign-up").onclick = attempt(async () => {
  const { login_id, password } = Object.fromEntries(new FormData($("sign-in")));
  await pilotis.members.signUp({ login_id, password });
});
$("guest").onclick = attempt(() => pilotis.members.guest());
$("sign-out").onclick = attempt(() => pilotis.members.signOut());
$("add").onsubmit = attempt(async (form) => {
  await notes.create({ text: form.text.value, done: false });
  form.reset();
});
$("greet").onclick = attempt(async () => {
  $("greeting").textContent = await pilotis.functions.invoke("greet", { name: "Ada" });
});

pilotis.members.onChange(showMember);
showMember();
// The list stays true, whoever changes it.
notes.all().orderBy("created_at").live((rows) => $("notes").replaceChildren(...rows.map(item)));
