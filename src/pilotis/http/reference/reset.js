"use strict";
const form = document.getElementById("form");
const button = form.querySelector("button");
const status = document.getElementById("status");
const token = location.hash.slice(1);

// The token stays in this page alone: not in the address bar, not in the history.
history.replaceState(null, "", location.pathname);
if (!token) {
  document.getElementById("no-token").hidden = false;
  form.hidden = true;
}

function show(kind, ...parts) {
  const paragraph = document.createElement("p");
  paragraph.className = "notice " + kind;
  paragraph.append(...parts);
  status.replaceChildren(paragraph);
}

function succeeded(user) {
  form.hidden = true;
  document.getElementById("intro").hidden = true;
  document.querySelector("h1").textContent = "Password set";
  const email = document.createElement("strong");
  email.textContent = user.email || "";
  show("success", "You can now sign in ", user.email ? "as " : "", email, " with the new password.");
  status.tabIndex = -1;
  status.focus();
}

function failed(answer) {
  const again =
    answer.code === "INVALID_RESET_LINK" ? " Whoever runs the server prints one with pilotis user reset." : "";
  show("error", answer.message + again);
  form.elements.password.focus();
}

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  button.disabled = true;
  show("plain", "One moment …");
  try {
    const answer = await fetch("/v1/auth/password-reset", {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ token, password: form.elements.password.value }),
    });
    const body = await answer.json();
    // With a second factor the password is set, and the sign-in asks for that.
    if (answer.ok || body.code === "SECOND_FACTOR_REQUIRED") succeeded(body);
    else failed(body);
  } catch {
    show("error", "Pilotis cannot be reached. Is it still running? Try again.");
  } finally {
    button.disabled = false;
  }
});
