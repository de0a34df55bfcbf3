/** The user: password, language, theme, and what happened to the account. */
import { html, useState } from "../vendor/view.js";
import { locale, t, worded } from "../strings/index.js";
import { request, user } from "../state/api.js";
import { store } from "../state/app.js";
import { ago, browser, moment, plain } from "../ui/format.js";
import { Factors } from "./factors.js";
import {
  Bones,
  Button,
  Failure,
  Pager,
  Pill,
  Segments,
  TextField,
  complain,
  said,
  toast,
  useAction,
  useLoad,
} from "../ui/widgets.js";

export const head = () => ({ title: t.profile.title });

const PAGE = 10;

/** @param {{config: Api.ConsoleConfig}} props */
export function Screen({ config }) {
  return html`<div class="page narrowpage">
    <section class="slab pad">
      <h2>${t.profile.account}</h2>
      <p>${user.value?.email}</p>
      <${Password} config=${config} />
    </section>
    <section class="slab pad"><h2>${t.profile.factors}</h2><${Factors} /></section>
    <section class="slab pad"><h2>${t.profile.looks}</h2><${Looks} /></section>
    <section class="slab"><header><h2>${t.profile.sessions}</h2></header><${Sessions} /></section>
    <section class="slab"><header><h2>${t.profile.log}</h2></header><${Log} /></section>
  </div>`;
}

/** @param {{config: Api.ConsoleConfig}} props */
function Password({ config }) {
  const [current, setCurrent] = useState("");
  const [next, setNext] = useState("");
  const { busy, error, run } = useAction(async () => {
    await request("/v1/auth/me/password", { method: "PUT", body: { current_password: current, new_password: next } });
    setCurrent("");
    setNext("");
    toast(t.profile.passwordChanged);
  });
  return html`<form class="form" onSubmit=${(/** @type {Event} */ event) => (event.preventDefault(), busy || run())}>
    <${TextField}
      label=${t.profile.currentPassword} type="password" autocomplete="current-password" required value=${current}
      onInput=${setCurrent} wrong=${error?.code === "WRONG_PASSWORD" && said(error)}
    />
    <${TextField}
      label=${t.profile.newPassword} type="password" autocomplete="new-password" required
      minlength=${config.password_min_length} maxlength=${config.password_max_length} value=${next} onInput=${setNext}
      help=${t.profile.passwordEnds} wrong=${error && error.code !== "WRONG_PASSWORD" && said(error)}
    />
    <div class="actions"><${Button} type="submit" busy=${busy}>${t.profile.changePassword}</${Button}></div>
  </form>`;
}

function Looks() {
  const [theme, setTheme] = useState(localStorage.getItem("pilotis.theme") || "system");
  const chooseTheme = (/** @type {string} */ value) => {
    store("pilotis.theme", value);
    setTheme(value);
    dispatchEvent(new Event("pilotis-theme"));
  };
  const chooseLanguage = (/** @type {string} */ value) => {
    store("pilotis.language", value);
    location.reload();
  };
  return html`<div class="form">
    <div class="field">
      <span class="label">${t.profile.theme}</span>
      <${Segments}
        label=${t.profile.theme} value=${theme} onChange=${chooseTheme}
        options=${[
          ["system", t.profile.system],
          ["light", t.profile.light],
          ["dark", t.profile.dark],
        ]}
      />
    </div>
    <div class="field">
      <span class="label">${t.profile.language}</span>
      <${Segments}
        label=${t.profile.language} value=${locale} onChange=${chooseLanguage}
        options=${[
          ["en", "English"],
          ["ko", "한국어"],
        ]}
      />
    </div>
  </div>`;
}

function Sessions() {
  const { data, error, reload } = useLoad((signal) => request("/v1/auth/sessions", { signal }), []);
  const end = async (/** @type {string} */ id) => {
    try {
      await request(`/v1/auth/sessions/${id}`, { method: "DELETE" });
      toast(t.profile.sessionEnded);
    } catch (error) {
      complain(error);
    }
    reload();
  };
  if (error) return html`<${Failure} error=${error} retry=${reload} />`;
  if (!data) return html`<${Bones} rows=${2} columns=${3} />`;
  return html`<table class="list">
    <thead><tr><th>${t.profile.browser}</th><th>${t.profile.address}</th><th>${t.keys.used}</th><th></th></tr></thead>
    <tbody>
      ${data.sessions.map(
        (one) => html`<tr key=${one.session_id}>
          <td class="main" title=${one.user_agent || undefined}>
            ${browser(one.user_agent)}
            ${one.is_current && html` <${Pill} icon="done">${t.profile.thisOne}</${Pill}>`}
          </td>
          <td class="wide"><code class="soft">${plain(one.address || "–", 60)}</code></td>
          <td class="soft">${ago(one.refreshed_at)}</td>
          <td class="fit">
            <${Button}
              kind="flat small" why=${one.is_current && t.profile.signOutInstead} onClick=${() => end(one.session_id)}
            >
              ${t.profile.endSession}
            </${Button}>
          </td>
        </tr>`,
      )}
    </tbody>
  </table>`;
}

function Log() {
  const [offset, setOffset] = useState(0);
  const { data, error, reload } = useLoad(
    (signal) => request("/v1/auth/audit-log", { query: { limit: PAGE, offset }, signal }),
    [offset],
  );
  if (error) return html`<${Failure} error=${error} retry=${reload} />`;
  if (!data) return html`<${Bones} rows=${5} columns=${3} />`;
  return html`
    <table class="list">
      <thead>
        <tr><th>${t.activity.what}</th><th>${t.profile.address}</th><th class="r">${t.activity.when}</th></tr>
      </thead>
      <tbody>
        ${data.data.map(
          (entry) => html`<tr key=${entry.entry_id}>
            <td>
              ${worded(t.actions, entry.action) || html`<code>${entry.action}</code>`}
              ${entry.details.reason && html` <span class="soft s12">${plain(entry.details.reason)}</span>`}
            </td>
            <td class="wide"><code class="soft">${plain(entry.details.address || "")}</code></td>
            <td class="r soft">${moment(entry.created_at)}</td>
          </tr>`,
        )}
      </tbody>
    </table>
    <${Pager} offset=${offset} limit=${PAGE} total=${data.total_count} onChange=${setOffset} />
  `;
}
