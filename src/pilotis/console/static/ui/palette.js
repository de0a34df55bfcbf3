/** Everything by its name: tables, screens, actions, members, apps. */
import { html, useEffect, useMemo, useRef, useState } from "../vendor/view.js";
import { t, worded } from "../strings/index.js";
import { app, appId, apps, may, onApp, tables } from "../state/app.js";
import { go } from "../state/router.js";
import { plain } from "./format.js";
import { Icon } from "./icons.js";
import { SECTIONS } from "./shell.js";
import { Dialog } from "./widgets.js";

/** @typedef {{group: string, icon: string, text: string, note?: string, path: string}} Entry */

/** @returns {Entry[]} */
function entries() {
  const base = `/apps/${appId.value}`;
  const inApp = app.value
    ? [
        ...(tables.value || []).map((table) => ({
          group: t.sectionNames.tables,
          icon: "table",
          text: table.title,
          note: worded(t.access, table.access_level)?.[0],
          path: `${base}/tables/${table.id}`,
        })),
        ...(may("editor")
          ? [{ group: t.palette.do, icon: "plus", text: t.tables.create, path: `${base}/tables?new=1` }]
          : []),
        ...SECTIONS.flatMap(([, ...items]) =>
          items.map(([name, icon]) => ({
            group: t.palette.go,
            icon,
            text: /** @type {any} */ (t.sectionNames)[name],
            path: name === "overview" ? base : `${base}/${name}`,
          })),
        ),
        .../** @type {const} */ (["diagram", "views"]).map((name) => ({
          group: t.palette.go,
          icon: "table",
          text: t.tables.sections[name],
          note: t.sectionNames.tables,
          path: `${base}/${name}`,
        })),
        ...["sign-in", "limits", "people", "archives", "trash"].map((tab) => ({
          group: t.palette.go,
          icon: "gear",
          text: /** @type {any} */ (t.settings.tabs)[tab],
          note: t.sectionNames.settings,
          path: `${base}/settings/${tab}`,
        })),
      ]
    : [];
  const others = (apps.value || []).filter((one) => !one.deleted_at && one.app_id !== appId.value);
  return [
    ...inApp,
    ...others.map((one) => ({
      group: t.apps.title,
      icon: "tiles",
      text: one.name,
      note: t.roles[one.role],
      path: `/apps/${one.app_id}`,
    })),
    { group: t.palette.go, icon: "tiles", text: t.allApps, path: "/" },
    { group: t.palette.go, icon: "member", text: t.profile.title, path: "/profile" },
  ];
}

/** @param {{onClose: () => void}} props */
export function Palette({ onClose }) {
  const [text, setText] = useState("");
  const [chosen, setChosen] = useState(/** @type {Entry | undefined} */ (undefined));
  const [members, setMembers] = useState(/** @type {Entry[]} */ ([]));
  const list = useRef(/** @type {HTMLElement | null} */ (null));
  const id = app.value?.app_id;
  const all = useMemo(entries, [apps.value, tables.value, id]);
  const wanted = text.trim().toLowerCase();
  const hits = [...all.filter((entry) => entry.text.toLowerCase().includes(wanted)), ...members].slice(0, 40);
  // What arrives late may be listed before the entry a person has chosen, which stays chosen.
  const at = Math.max(
    0,
    hits.findIndex((entry) => entry.path === chosen?.path && entry.text === chosen.text),
  );
  const choose = (/** @type {number} */ index) => setChosen(hits[index]);
  useEffect(() => {
    setChosen(undefined);
    setMembers([]);
    if (wanted.length < 2 || !id) return;
    const abort = new AbortController();
    const timer = setTimeout(() => {
      onApp("/members", { query: { search: wanted, limit: 5 }, signal: abort.signal })
        .then((answer) =>
          setMembers(
            answer.data.map((one) => ({
              group: t.sectionNames.members,
              icon: "member",
              text: one.nickname || one.login_id || one.member_id,
              note: one.login_id || t.members.guest,
              path: `/apps/${appId.value}/members?member=${one.member_id}`,
            })),
          ),
        )
        .catch(() => {});
    }, 150);
    return () => (clearTimeout(timer), abort.abort());
  }, [wanted, id]);
  const open = (/** @type {Entry | undefined} */ entry) => {
    if (!entry) return;
    onClose();
    go(entry.path);
  };
  /** @param {KeyboardEvent} event */
  const keys = (event) => {
    if (event.isComposing) return;
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (event.key === "Enter") open(hits[at]);
    else if (step && hits.length) choose((at + step + hits.length) % hits.length);
    else return;
    event.preventDefault();
  };
  useEffect(() => list.current?.querySelector(".on")?.scrollIntoView({ block: "nearest" }), [at]);
  let group = "";
  return html`<${Dialog} bare title=${t.find} class="palette" onClose=${onClose}>
    <div class="ask">
      <${Icon} name="search" />
      <input
        data-first role="combobox" aria-expanded="true" aria-controls="hits"
        aria-activedescendant=${hits[at] ? `hit-${at}` : undefined} aria-label=${t.find} placeholder=${t.palette.ask}
        value=${text} onInput=${(/** @type {Typed} */ event) => setText(event.target.value)} onKeyDown=${keys}
        autocomplete="off" spellcheck="false"
      />
      <kbd>Esc</kbd>
    </div>
    <div class="found" id="hits" role="listbox" aria-label=${t.find} ref=${list}>
      ${hits.map((entry, index) => {
        const first = entry.group !== group;
        group = entry.group;
        return html`
          ${first && html`<h3 role="presentation">${group}</h3>`}
          <div
            id=${`hit-${index}`} role="option" aria-selected=${index === at ? "true" : "false"}
            class=${`hit ${index === at ? "on upright" : ""}`} onPointerMove=${() => choose(index)}
            onClick=${() => open(entry)}
          >
            <${Icon} name=${entry.icon} />
            <span class="cut"><${Marked} text=${plain(entry.text, 80)} wanted=${wanted} /></span>
            <span class="soft s12 cut grow">${entry.note && plain(entry.note, 60)}</span>
            ${index === at && html`<kbd>↵</kbd>`}
          </div>
        `;
      })}
      ${!hits.length && html`<p class="head soft nothing">${t.palette.nothing}</p>`}
    </div>
  </${Dialog}>`;
}

/** @param {{text: string, wanted: string}} props */
function Marked({ text, wanted }) {
  const start = wanted ? text.toLowerCase().indexOf(wanted) : -1;
  return start < 0
    ? text
    : html`
        ${text.slice(0, start)}
        <mark>${text.slice(start, start + wanted.length)}</mark>
        ${text.slice(start + wanted.length)}
      `;
}
