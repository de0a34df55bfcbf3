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

function paragraph(kind, ...parts) {
  const made = document.createElement("p");
  made.className = "notice " + kind;
  made.append(...parts);
  return made;
}

function link(address, text) {
  const made = document.createElement("a");
  made.href = address;
  made.textContent = text;
  return made;
}

function advice(code) {
  if (code === "INVALID_INVITATION") return " Start Pilotis again for a new link, or ask for a new invitation.";
  if (code === "EMAIL_TAKEN") return " Sign in with it instead, or choose another address.";
  return "";
}

function succeeded(user) {
  form.hidden = true;
  document.getElementById("intro").hidden = true;
  document.querySelector("h1").textContent = "Welcome";
  const code = document.createElement("code");
  code.textContent = "POST /v1/auth/signin";
  const email = document.createElement("strong");
  email.textContent = user.email;
  status.replaceChildren(
    paragraph("success", "You can now sign in as ", email, "."),
    paragraph("plain", "Programs sign in with ", code, "; the ", link("/docs", "reference"), " shows this and all that follows."),
  );
  status.tabIndex = -1;
  status.focus();
}

function failed(message, field) {
  status.replaceChildren(paragraph("error", message));
  (document.getElementById(field) || form.elements.email).focus();
}

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  button.disabled = true;
  status.replaceChildren(paragraph("plain", "One moment …"));
  const body = { email: form.elements.email.value, password: form.elements.password.value, token };
  try {
    const answer = await fetch("/v1/auth/signup", {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(body),
    });
    const told = await answer.json();
    if (answer.ok) succeeded(told);
    else failed(told.message + advice(told.code), told.details?.[0]?.field);
  } catch {
    failed("Pilotis cannot be reached. Is it still running? Try again.");
  } finally {
    button.disabled = false;
  }
});
