"use strict";
const form = document.getElementById("form");
const status = document.getElementById("status");
const deny = document.getElementById("deny");
const token = location.hash.slice(1);

// The token stays in this page alone: not in the address bar, not in the history.
history.replaceState(null, "", location.pathname);
if (!token) {
  document.getElementById("no-token").hidden = false;
  form.hidden = true;
}

function show(kind, text) {
  const paragraph = document.createElement("p");
  paragraph.className = "notice " + kind;
  paragraph.append(text);
  status.replaceChildren(paragraph);
}

function succeeded(message) {
  form.hidden = true;
  document.getElementById("intro").hidden = true;
  show("success", message);
  status.tabIndex = -1;
  status.focus();
}

async function send(action, body) {
  const buttons = form.querySelectorAll("button");
  for (const button of buttons) button.disabled = true;
  show("plain", "One moment …");
  try {
    const answer = await fetch(action, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(body),
    });
    const { message } = await answer.json();
    if (answer.ok) succeeded(message);
    else show("error", message);
  } catch {
    show("error", "The server cannot be reached. Try again.");
  } finally {
    for (const button of buttons) button.disabled = false;
  }
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  const { password } = form.elements;
  send(form.dataset.action, password ? { token, password: password.value } : { token });
});
if (deny) deny.addEventListener("click", () => send("deny", { token }));
