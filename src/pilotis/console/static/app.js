/** The console: which screen stands at which address, and what is asked before any is shown. */
import { html, render, useEffect, useState } from "./vendor/view.js";
import { t } from "./strings/index.js";
import { doubted, ended, upgraded, user, watch } from "./state/api.js";
import { app, appId, apps, loadApps, openApp } from "./state/app.js";
import * as begun from "./state/begin.js";
import { follow, go, href, match, place } from "./state/router.js";
import { Invitation, ProofDialog, SetUp, SignIn, SignInDialog } from "./screens/entry.js";
import { cover } from "./ui/cover.js";
import { isCommand, plain } from "./ui/format.js";
import { Icon } from "./ui/icons.js";
import { Shell } from "./ui/shell.js";
import { Button, Empty, Failure, complain } from "./ui/widgets.js";

/** Each screen's module exports `Screen`, and `title` or `head`, which tell what stands in the bar. */
const SCREENS = /** @type {[string, () => Promise<unknown>][]} */ ([
  ["/", () => import("./screens/apps.js")],
  ["/profile", () => import("./screens/profile.js")],
  ["/apps/:app", () => import("./screens/overview.js")],
  ["/apps/:app/tables", () => import("./screens/tables.js")],
  ["/apps/:app/tables/:table", () => import("./screens/table.js")],
  ["/apps/:app/tables/:table/:tab", () => import("./screens/table.js")],
  ["/apps/:app/diagram", () => import("./screens/diagram.js")],
  ["/apps/:app/views", () => import("./screens/views.js")],
  ["/apps/:app/views/:view", () => import("./screens/view.js")],
  ["/apps/:app/members", () => import("./screens/members.js")],
  ["/apps/:app/teams", () => import("./screens/teams.js")],
  ["/apps/:app/invitations", () => import("./screens/invitations.js")],
  ["/apps/:app/files", () => import("./screens/files.js")],
  ["/apps/:app/files/:storage", () => import("./screens/files.js")],
  ["/apps/:app/sites", () => import("./screens/sites.js")],
  ["/apps/:app/sites/:site", () => import("./screens/site.js")],
  ["/apps/:app/sites/:site/:tab", () => import("./screens/site.js")],
  ["/apps/:app/functions", () => import("./screens/functions.js")],
  ["/apps/:app/functions/:fn", () => import("./screens/function.js")],
  ["/apps/:app/functions/:fn/:tab", () => import("./screens/function.js")],
  ["/apps/:app/workflows", () => import("./screens/workflows.js")],
  ["/apps/:app/workflows/:workflow", () => import("./screens/workflow.js")],
  ["/apps/:app/workflows/:workflow/:tab", () => import("./screens/workflow.js")],
  ["/apps/:app/workflows/:workflow/runs/:run", () => import("./screens/run.js")],
  ["/apps/:app/webhooks", () => import("./screens/webhooks.js")],
  ["/apps/:app/webhooks/events", () => import("./screens/webhooks.js")],
  ["/apps/:app/webhooks/jobs", () => import("./screens/webhooks.js")],
  ["/apps/:app/webhooks/:webhook", () => import("./screens/webhook.js")],
  ["/apps/:app/keys", () => import("./screens/keys.js")],
  ["/apps/:app/oauth", () => import("./screens/oauth.js")],
  ["/apps/:app/oauth/:tab", () => import("./screens/oauth.js")],
  ["/apps/:app/mail", () => import("./screens/mail.js")],
  ["/apps/:app/mail/:tab", () => import("./screens/mail.js")],
  ["/apps/:app/activity", () => import("./screens/activity.js")],
  ["/apps/:app/activity/:tab", () => import("./screens/activity.js")],
  ["/apps/:app/settings", () => import("./screens/settings.js")],
  ["/apps/:app/settings/:tab", () => import("./screens/settings.js")],
]);
const ENTRIES = { "/sign-in": SignIn, "/setup": SetUp, "/invitation": Invitation };

/** @param {{config: Api.ConsoleConfig}} props */
function Console({ config }) {
  const { path } = place.value;
  const Entry = /** @type {any} */ (ENTRIES)[path];
  if (user.value === undefined) return null;
  if (Entry) return html`<${Entry} config=${config} />`;
  if (user.value === null) {
    // Where there is no user yet, signing in would lead nowhere.
    go(config.setup_required ? "/setup" : `/sign-in?to=${encodeURIComponent(path + location.search)}`, {
      replace: true,
    });
    return null;
  }
  return html`<${Screens} config=${config} path=${path} />`;
}

/** @param {{config: Api.ConsoleConfig, path: string}} props */
function Screens({ config, path }) {
  const found = match(SCREENS, path);
  const wanted = found?.params.app || "";
  const [screen, setScreen] = useState(/** @type {{load: any, module?: any, error?: unknown} | null} */ (null));
  const [failed, setFailed] = useState(/** @type {any} */ (null));
  const [palette, setPalette] = useState(/** @type {any} */ (null));
  const load = found?.value;
  useEffect(() => {
    // One that comes late must not stand in for the screen that was opened since.
    let isOpen = true;
    load?.().then(
      (module) => isOpen && setScreen({ load, module }),
      (error) => isOpen && setScreen({ load, error }),
    );
    return () => {
      isOpen = false;
    };
  }, [load]);
  // The list of apps is read again whenever it is opened; every other screen needs it once.
  const isList = found?.value === SCREENS[0][1];
  useEffect(() => {
    if (!apps.value || isList) loadApps().catch(apps.peek() ? complain : setFailed);
  }, [isList]);
  useEffect(() => {
    openApp(wanted);
    if (!wanted) appId.value = "";
  }, [wanted]);
  const find = () => import("./ui/palette.js").then((module) => setPalette(() => module.Palette));
  useEffect(() => {
    const keys = (/** @type {KeyboardEvent} */ event) => {
      if (isCommand(event) && event.key.toLowerCase() === "k") {
        event.preventDefault();
        find();
      }
    };
    addEventListener("keydown", keys);
    return () => removeEventListener("keydown", keys);
  }, []);

  const ready = screen?.load === load && screen?.module && apps.value && wanted === appId.value;
  const head = ready ? screen.module.head(found?.params) : { title: "" };
  const name = app.value && wanted ? plain(app.value.name, 60) : "";
  useEffect(() => {
    document.title = [head.text || head.title, name, "Pilotis"].filter(Boolean).join(" · ");
  });
  const Screen = screen?.module?.Screen;
  const PaletteDialog = palette;
  return html`
    <${Shell} config=${config} ...${head} onFind=${find}>
      ${failed
        ? html`<${Failure} error=${failed} retry=${() => (setFailed(null), loadApps().catch(setFailed))} />`
        : !found || (apps.value && wanted && !app.value)
          ? html`<${Empty} title=${t.nothingHere} text=${t.nothingHereText}>
              <a class="b" href=${href("/")}>${t.allApps}</a>
            </${Empty}>`
          : screen?.error && screen.load === load
            ? html`<${Failure}
                title=${t.notLoaded} error=${{ message: t.notLoadedText }} retry=${() => location.reload()}
              />`
            : ready
              ? html`<${Screen}
                  key=${
                    wanted +
                    (found?.params.table ||
                      found?.params.site ||
                      found?.params.fn ||
                      found?.params.run ||
                      found?.params.workflow ||
                      found?.params.webhook ||
                      found?.params.view ||
                      "")
                  }
                  config=${config} ...${found?.params}
                />`
              : null}
    </${Shell}>
    ${PaletteDialog && html`<${PaletteDialog} onClose=${() => setPalette(null)} />`}
    ${doubted.value && html`<${ProofDialog} />`}
    ${ended.value && html`<${SignInDialog} />`}
    ${upgraded.value && html`<aside class="upgraded" role="status">
      <${Icon} name="info" />
      <span class="grow">${t.upgraded}</span>
      <${Button} kind="small" onClick=${() => location.reload()}>${t.reload}</${Button}>
      <${Button} kind="flat small" icon="cross" label=${t.dismiss} onClick=${() => (upgraded.value = false)} />
    </aside>`}
  `;
}

async function start() {
  addEventListener("click", follow);
  addEventListener("click", cover);
  addEventListener("auxclick", cover);
  const root = /** @type {HTMLElement} */ (document.getElementById("root"));
  // The screen's modules come while the session is renewed.
  match(SCREENS, place.value.path)
    ?.value()
    .catch(() => {});
  try {
    const [config] = await Promise.all([begun.config, begun.session.then((known) => known || (user.value = null))]);
    if (location.origin !== config.base_url && isLoopback(location.origin) && isLoopback(config.base_url)) {
      // The session's cookie belongs to the address that the server calls its own.
      location.replace(config.base_url + location.pathname + location.search + location.hash);
      return;
    }
    // The files of this page are below the hash of all of them.
    watch(new URL(import.meta.url).pathname.split("/")[3]);
    render(html`<${Console} config=${config} />`, root);
  } catch (error) {
    render(
      html`<main><${Failure} title=${t.notStarted} error=${error} retry=${() => location.reload()} /></main>`,
      root,
    );
  }
}

/** @param {string} url */
const isLoopback = (url) => ["localhost", "127.0.0.1", "[::1]"].includes(new URL(url).hostname);

start();
