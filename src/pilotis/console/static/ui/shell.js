/** The frame of every screen: rail or dock, the bar with the title and the search, and the screen itself. */
import { computed, html, signal, useEffect, useState } from "../vendor/view.js";
import { t, worded } from "../strings/index.js";
import { reachable, signOut, user } from "../state/api.js";
import { app, appId, apps, attention, loadAttention, recentTables, tables } from "../state/app.js";
import { go, href, isGuarded, leave, place } from "../state/router.js";
import { date, initials, plain, shortcut } from "./format.js";
import { Icon } from "./icons.js";
import { Confirm, Menu, MenuButton, MenuItem, Toasts, complain } from "./widgets.js";

/** What stands at the foot of every page, once a screen has put it there: its code is loaded with that screen. */
export const foot = signal(/** @type {Function | null} */ (null));

/** The sections of an app; a screen that is not there is not linked. */
export const SECTIONS = /** @type {const} */ ([
  ["", ["overview", "overview"], ["activity", "activity"]],
  ["data", ["tables", "table"], ["members", "member"], ["files", "folder"]],
  ["deliver", ["sites", "globe"], ["functions", "code"], ["workflows", "flow"], ["webhooks", "bolt"]],
  ["access", ["keys", "key"], ["oauth", "signin"], ["mail", "mail"], ["settings", "gear"]],
]);

/** @param {string} section */
export const sectionHref = (section) => href(`/apps/${appId.value}${section === "overview" ? "" : `/${section}`}`);

/** Screens that belong to another section than their own name's. */
const WITHIN = /** @type {Record<string, string>} */ ({
  diagram: "tables",
  views: "tables",
  teams: "members",
  invitations: "members",
});
const screen = computed(() => place.value.path.split("/")[3] || "overview");
const section = computed(() => WITHIN[screen.value] || screen.value);

/**
 * @param {{config: Api.ConsoleConfig, title: Markup, crumbs?: {text: string, href: string}[], aside?: Markup,
 *   children?: Markup, onFind: () =>
 *   void}} props
 */
export function Shell({ config, title, crumbs = [], aside, children, onFind }) {
  const inApp = !!appId.value;
  return html`<div class=${`frame ${inApp ? (app.value?.parent_app_id ? "inbranch" : "") : "bare"}`}>
    <a
      class="skip" href="#main"
      onClick=${(/** @type {Event} */ event) => (event.preventDefault(), document.getElementById("main")?.focus())}
    >
      ${t.skip}
    </a>
    ${inApp && html`<${Rail} config=${config} />`}
    <header class="top">
      <div class="crumbs">
        ${!inApp && html`
          <a class="brand wide" href=${href("/")} aria-label="Pilotis"><${Icon} name="mark" class="mark" /></a>
          <span class="sep wide">/</span>
        `}
        ${crumbs.map((crumb) => html`<a class="cut" href=${crumb.href}>${crumb.text}</a><span class="sep">/</span>`)}
        <h1 class="cut">${title}</h1>
        ${inApp && app.value?.parent_app_id && html`<a
          class="pill branch keep" href=${href(`/apps/${app.value.parent_app_id}/settings/branches`)}
          title=${t.branches.barTitle(date(app.value.expires_at || ""))}
        >
          <${Icon} name="fork" />
          <span class="cut">${t.branches.bar(plain(app.value.branch || "", 60))}</span>
        </a>`}
        ${aside}
      </div>
      <button type="button" class="find" onClick=${onFind} title=${t.find} aria-keyshortcuts="Meta+K Control+K">
        <${Icon} name="search" />
        <span>${t.find}</span>
        <kbd>${shortcut("K")}</kbd>
      </button>
      <${Profile} />
    </header>
    <main id="main" tabindex="-1">${children}</main>
    <div class="foot">${foot.value && html`<${foot.value} />`}<${Toasts} /></div>
    ${inApp && html`<${Dock} />`}
  </div>`;
}

const ATTENTION_MS = 60000;

/**
 * What stands beside a section only if it needs attention.
 * @param {string} name
 * @returns {[icon: string, kind: string, text: string, count: number] | null}
 */
function markOf(name) {
  const {
    running = 0,
    failing = 0,
    dead_jobs: dead = 0,
    exposure = 0,
    archives = 0,
    quotas = 0,
  } = attention.value || {};
  if (name === "workflows" && running) return ["run", "info", t.attention.running(running), running];
  if (name === "webhooks" && failing + dead)
    return [
      "warn",
      "warn",
      [failing && t.attention.failing(failing), dead && t.attention.deadJobs(dead)].filter(Boolean).join(", "),
      failing + dead,
    ];
  if (name === "settings" && archives + quotas)
    return [
      "warn",
      "warn",
      [quotas && t.attention.quotas, archives && t.attention.archives(archives)].filter(Boolean).join(", "),
      archives + quotas,
    ];
  if (name === "overview" && exposure) return ["warn", "warn", t.attention.exposure(exposure), exposure];
  return null;
}

/** @param {{config: Api.ConsoleConfig}} props */
function Rail({ config }) {
  useEffect(() => {
    loadAttention();
    const timer = setInterval(() => document.hidden || loadAttention(), ATTENTION_MS);
    return () => clearInterval(timer);
  }, [appId.value]);
  return html`<aside class="rail" aria-label=${t.sections}>
    <${Switcher} />
    <nav aria-label=${t.sections}>
      ${SECTIONS.map(
        ([group, ...items]) => html`
          ${group && html`<h2>${t.groups[group]}</h2>`}
          ${items.map(([name, icon]) => html`<${RailItem} name=${name} icon=${icon} />`)}
        `,
      )}
    </nav>
    <footer>
      <${Icon} name="mark" class="mark" />
      <span class="grow">Pilotis ${config.version}</span>
      <span class=${`line s12 ${reachable.value ? "" : "state bad"}`}>
        <${Icon} name=${reachable.value ? "done" : "fail"} />
        ${reachable.value ? t.connected : t.disconnected}
      </span>
    </footer>
  </aside>`;
}

/** @param {{name: string, icon: string}} props */
function RailItem({ name, icon }) {
  const tableId = screen.value === "tables" ? place.value.path.split("/")[4] : undefined;
  const on = section.value === name && !(name === "tables" && tableId);
  const label = worded(t.sectionNames, name);
  const mark = markOf(name);
  const link = html`<a
    href=${sectionHref(name)} class=${on ? "on" : ""} aria-current=${on ? "page" : undefined} title=${label}
  >
    <${Icon} name=${icon} />
    ${label}
    ${mark && html`<span class=${`n num state ${mark[1]}`} title=${mark[2]}>
      <${Icon} name=${mark[0]} class=${mark[0] === "run" ? "spin" : ""} />
      ${mark[3]}
      <span class="sr">${mark[2]}</span>
    </span>`}
    ${name === "tables" && tables.value?.length ? html`<span class="n num">${tables.value.length}</span>` : null}
  </a>`;
  return name === "tables" && section.value === "tables" ? html`${link}<${TableLinks} current=${tableId} />` : link;
}

/** At most 8 tables, those of late first. @param {{current?: string}} props */
function TableLinks({ current }) {
  const all = tables.value || [];
  const recent = recentTables();
  const rank = (/** @type {string} */ id) => (id === current ? -1 : recent.includes(id) ? recent.indexOf(id) : 99);
  const shown = [...all]
    .sort((a, b) => rank(a.id) - rank(b.id))
    .slice(0, 8)
    .sort((a, b) => a.title.localeCompare(b.title));
  return html`<div class="sub">
    ${shown.map(
      (table) => html`<a
        key=${table.id} href=${href(`/apps/${appId.value}/tables/${table.id}`)}
        class=${table.id === current ? "on" : ""} aria-current=${table.id === current ? "page" : undefined}
      >
        <span class="cut">${plain(table.title, 60)}</span>
      </a>`,
    )}
    ${all.length > shown.length && html`<a class="all" href=${sectionHref("tables")}>${t.allTables(all.length)}</a>`}
  </div>`;
}

function Switcher() {
  const current = app.value;
  return html`<${MenuButton}
    label=${t.apps.title}
    button=${(/** @type {Bind} */ bind) => html`<button type="button" class="switcher" ...${bind} title=${t.switchApp}>
      <span class="monogram" aria-hidden="true">${initials(current?.name || "·")}</span>
      <span class="grow cut">
        <b class="cut">${current ? plain(current.name, 60) : ""}</b>
        <small>${current ? t.roles[current.role] : ""}</small>
      </span>
      <${Icon} name="updown" />
    </button>`}
  >
    ${(/** @type {() => void} */ close) => html`
      ${(apps.value || [])
        .filter((one) => !one.deleted_at)
        .slice(0, 30)
        .map(
          (one) => html`<${MenuItem}
            href=${href(`/apps/${one.app_id}`)} onClick=${close} icon=${one.app_id === appId.value ? "check" : "right"}
          >
            ${plain(one.name, 60)}
          </${MenuItem}>`,
        )}
      <hr />
      <${MenuItem} href=${href("/")} icon="tiles" onClick=${close}>${t.allApps}</${MenuItem}>
    `}
  </${MenuButton}>`;
}

function Profile() {
  const [asks, setAsks] = useState(false);
  const end = async () => {
    await signOut();
    leave("/sign-in");
  };
  const press = () => (isGuarded() ? setAsks(true) : end().catch(complain));
  return html`
    <${MenuButton}
      align="right" label=${t.profile.title}
      button=${(/** @type {Bind} */ bind) => html`<button
        type="button" class="face" ...${bind} aria-label=${t.profile.title}
      >
        ${initials(user.value?.email || "")}
      </button>`}
    >
      ${(/** @type {() => void} */ close) => html`
        <p class="head cut">${user.value?.email}</p>
        <${MenuItem} icon="member" href=${href("/profile")} onClick=${close}>${t.profile.title}</${MenuItem}>
        <${MenuItem} icon="tiles" href=${href("/")} onClick=${close}>${t.allApps}</${MenuItem}>
        <${MenuItem} icon="globe" onClick=${() => open("/docs", "_blank", "noopener")}>${t.reference}</${MenuItem}>
        <hr />
        <${MenuItem} icon="signout" onClick=${() => (close(), press())}>${t.signOut}</${MenuItem}>
      `}
    </${MenuButton}>
    ${asks && html`<${Confirm}
      title=${t.signOutTitle} text=${t.signOutText} action=${t.signOut} onClose=${() => setAsks(false)} run=${end}
    />`}
  `;
}

const DOCKED = /** @type {const} */ ([
  ["overview", "overview"],
  ["tables", "table"],
  ["members", "member"],
  ["activity", "activity"],
]);

function Dock() {
  const [more, setMore] = useState(/** @type {DOMRect | null} */ (null));
  useEffect(() => setMore(null), [place.value]);
  const docked = DOCKED.some(([name]) => name === section.value);
  return html`<nav class="dock" aria-label=${t.sections}>
    ${DOCKED.map(
      ([name, icon]) => html`<a
        href=${sectionHref(name)} class=${name === section.value ? "on" : ""}
        aria-current=${name === section.value ? "page" : undefined}
      >
        <${Icon} name=${icon} />
        ${t.sectionNames[name]}
      </a>`,
    )}
    <button
      type="button" class=${docked ? "" : "on"} aria-haspopup="menu"
      onClick=${(/** @type {Typed} */ event) => setMore(event.currentTarget.getBoundingClientRect())}
    >
      <${Icon} name="more" />
      ${t.more}
    </button>
    ${more && html`<${Menu} at=${more} align="right" label=${t.more} onClose=${() => setMore(null)}>
      ${/** @type {readonly (readonly any[])[]} */ (SECTIONS)
        .flatMap(([, ...items]) => items)
        .filter(([name]) => !DOCKED.some(([docked]) => docked === name))
        .map(
          ([name, icon]) => html`<${MenuItem} href=${sectionHref(name)} icon=${icon}>
            ${worded(t.sectionNames, name)}
          </${MenuItem}>`,
        )}
      <hr />
      <${MenuItem} icon="tiles" onClick=${() => go("/")}>${t.allApps}</${MenuItem}>
    </${Menu}>`}
  </nav>`;
}
