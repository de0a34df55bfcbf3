// One script tag gives a page its sign-in: `<script src="…/sdk/v1/account.js" data-key="pk_…"></script>`, and on a site of
// the app `<script src="/sdk/v1/account.js"></script>`.
import type { Account, Client } from "./types.ts";

/** Those of the account pages. */
type Words = [signIn: string, signOut: string, failed: string];
const WORDS: Record<string, Words> = {
  en: ["Sign in", "Sign out", "That did not work. Try again."],
  ko: ["로그인", "로그아웃", "처리하지 못했습니다. 다시 시도하세요."],
  ja: ["ログイン", "ログアウト", "処理できませんでした。もう一度お試しください。"],
  zh: ["登录", "退出登录", "操作未成功。请重试。"],
  de: ["Anmelden", "Abmelden", "Das hat nicht geklappt. Versuchen Sie es noch einmal."],
  fr: ["Se connecter", "Se déconnecter", "Cela n’a pas fonctionné. Réessayez."],
  es: ["Iniciar sesión", "Cerrar sesión", "No ha funcionado. Vuelva a intentarlo."],
};
// It looks as the page does around it; `part` is by what the page styles it.
const STYLE = `:host{display:inline-flex;flex-wrap:wrap;gap:.75em;align-items:center;font:inherit;color:inherit}
[hidden]{display:none}
button{font:inherit;color:inherit;background:none;border:1px solid;border-radius:4px;padding:.4em 1em;min-height:2.5rem;cursor:pointer}
button:disabled{opacity:.6;cursor:progress}
a{color:inherit;overflow-wrap:anywhere}`;

const script = document.currentScript as HTMLScriptElement;
/** What the server has written before this on a site of the app. */
const site = (globalThis as { pilotisAccount?: { url: string; key: string | null } }).pilotisAccount;
const { language } = script.dataset;
const key = script.dataset.key ?? site?.key;
const here = new URL(site ? `${site.url}/sdk/v1/account.js` : script.src);
const url = script.dataset.url ?? site?.url ?? here.origin;
const isKnown = (name: string | undefined) => !!name && name in WORDS;
const lang = [language, document.documentElement.lang, navigator.language].map((name) => name?.slice(0, 2)).find(isKnown) ?? "en";
const [signIn, signOut, failed] = WORDS[lang]!;

let made: Promise<Client> | undefined;
/** The client of all elements of the page. */
const client = () =>
  (made ??= import(new URL("pilotis.js", here).href).then(({ createClient }) => createClient({ url, publicKey: key })));

function hiddenElement(tag: string, part: string): HTMLElement {
  const element = document.createElement(tag);
  element.setAttribute("part", part);
  element.hidden = true;
  return element;
}

/** `<pilotis-account>`: a button for the sign-in, or who is signed in. */
class PilotisAccount extends HTMLElement {
  private readonly enter = hiddenElement("button", "sign-in") as HTMLButtonElement;
  private readonly name = hiddenElement("a", "account") as HTMLAnchorElement;
  private readonly leave = hiddenElement("button", "sign-out") as HTMLButtonElement;
  private readonly fault = hiddenElement("span", "error");
  private stop: (() => void) | null = null;

  constructor() {
    super();
    const root = this.attachShadow({ mode: "open" });
    const style = new CSSStyleSheet();
    style.replaceSync(STYLE);
    root.adoptedStyleSheets = [style];
    this.enter.textContent = signIn;
    this.leave.textContent = signOut;
    this.fault.setAttribute("role", "alert");
    root.append(this.enter, this.name, this.leave, this.fault);
    this.enter.addEventListener("click", () => this.run(async (pilotis) => pilotis.members.signInWithPage({ language: lang })));
    this.leave.addEventListener("click", () => this.run((pilotis) => pilotis.members.signOut()));
    // Who goes back from the sign-in finds the button as it was.
    addEventListener("pageshow", (event) => event.persisted && (this.enter.disabled = false));
  }

  connectedCallback(): void {
    void this.run(async (pilotis) => {
      this.stop ??= pilotis.members.onChange((event) => {
        if (event.type === "sign_in_failed") this.complain(event.error);
        else if (event.type !== "refreshed") void this.run((pilotis) => this.show(pilotis));
      });
      await this.show(pilotis);
    });
  }

  disconnectedCallback(): void {
    this.stop?.();
    this.stop = null;
  }

  /** Shows who is signed in, and tells the page. */
  private async show(pilotis: Client): Promise<void> {
    let account: Account | null = null;
    if (await pilotis.members.session()) account = await pilotis.members.account();
    const isMember = !!account && !account.is_guest;
    if (isMember) {
      const { pages_url } = await pilotis.request("GET", "/v1/public/account-settings");
      this.name.href = `${pages_url}/account?lang=${lang}`;
      this.name.textContent = account!.nickname ?? account!.login_id ?? account!.email ?? account!.member_id;
    }
    this.enter.hidden = isMember;
    this.name.hidden = this.leave.hidden = !isMember;
    const detail = { client: pilotis, member: account };
    this.dispatchEvent(new CustomEvent("pilotis-member", { bubbles: true, composed: true, detail }));
  }

  private async run(work: (pilotis: Client) => Promise<unknown>): Promise<void> {
    this.fault.hidden = true;
    this.enter.disabled = this.leave.disabled = true;
    try {
      await work(await client());
    } catch (error) {
      this.complain(error);
    } finally {
      this.enter.disabled = this.leave.disabled = false;
    }
  }

  private complain(error: unknown): void {
    // Whose session has ended is a visitor, which the client tells as well.
    if ((error as { code?: string }).code === "SESSION_ENDED") return;
    console.error(error);
    this.enter.hidden = !this.leave.hidden;
    this.fault.textContent = failed;
    this.fault.hidden = false;
  }
}

if (!key) console.error("account.js needs the app's public key: data-key.");
else {
  customElements.define("pilotis-account", PilotisAccount);
  // In the head it stands nowhere: there the page has the element where it wants it.
  if (!script.closest("head")) script.after(document.createElement("pilotis-account"));
}
