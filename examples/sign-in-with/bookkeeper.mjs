// A program on an origin of its own where people sign in with the tea shop, and that is told of their orders.
//   ISSUER=… CLIENT_ID=… CLIENT_SECRET=… WEBHOOK_SECRET=… node bookkeeper.mjs
// NAME and PORT are optional. See README.md beside this file.
import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import http from 'node:http';
import { createRemoteJWKSet, jwtVerify } from 'jose';
import * as oauth from 'openid-client';

const { ISSUER, CLIENT_ID, CLIENT_SECRET, WEBHOOK_SECRET = '', NAME = 'Bookkeeper', PORT = '8095' } = process.env;
const ORIGIN = `http://127.0.0.1:${PORT}`;
const COOKIE = `session-${PORT}`;

// Plain http is for this example on one machine alone.
const options = ISSUER.startsWith('http:') ? { execute: [oauth.allowInsecureRequests] } : {};
const method = oauth.ClientSecretBasic(CLIENT_SECRET);
const shop = await oauth.discovery(new URL(ISSUER), CLIENT_ID, CLIENT_SECRET, method, options);
const keys = createRemoteJWKSet(new URL(shop.serverMetadata().jwks_uri));

const begun = new Map(); // browser → what its sign-in began with
const sessions = new Map(); // browser → { sub, sid, name, idToken }
const orders = new Map(); // sub → Map of event id → order

const routes = {
  'GET /': home,
  'GET /login': login,
  'GET /callback': callback,
  'POST /logout': logout,
  'POST /backchannel': backchannel,
  'POST /events': event,
};

async function login({ browser, answer }) {
  const verifier = oauth.randomPKCECodeVerifier();
  const state = oauth.randomState();
  const nonce = oauth.randomNonce();
  begun.set(browser, { verifier, state, nonce });
  const url = oauth.buildAuthorizationUrl(shop, {
    redirect_uri: `${ORIGIN}/callback`,
    scope: 'openid profile orders:read',
    state,
    nonce,
    code_challenge: await oauth.calculatePKCECodeChallenge(verifier),
    code_challenge_method: 'S256',
  });
  redirect(answer, url, browser);
}

async function callback({ url, browser, answer }) {
  const { verifier, state, nonce } = begun.get(browser) ?? {};
  if (!begun.delete(browser)) return page(answer, 400, notice('This sign-in has ended. Begin again.'));
  try {
    const tokens = await oauth.authorizationCodeGrant(shop, url, {
      pkceCodeVerifier: verifier,
      expectedState: state,
      expectedNonce: nonce,
      idTokenExpected: true,
    });
    const { sub, sid } = tokens.claims();
    const { name = sub } = await oauth.fetchUserInfo(shop, tokens.access_token, sub);
    // A new name for the browser: nobody can have planted the old one.
    const signedIn = random();
    sessions.set(signedIn, { sub, sid, name, idToken: tokens.id_token });
    redirect(answer, `${ORIGIN}/`, signedIn);
  } catch (error) {
    page(answer, 400, notice(`You were not signed in: ${error.error ?? error.message}.`));
  }
}

function logout({ browser, answer }) {
  const session = sessions.get(browser);
  sessions.delete(browser);
  if (!session) return redirect(answer, `${ORIGIN}/`, browser);
  const url = oauth.buildEndSessionUrl(shop, {
    id_token_hint: session.idToken,
    post_logout_redirect_uri: `${ORIGIN}/`,
  });
  redirect(answer, url, random());
}

// The shop says that a session has ended (OpenID Connect Back-Channel Logout, section 2.6).
async function backchannel({ body, answer }) {
  try {
    const token = new URLSearchParams(body.toString()).get('logout_token') ?? '';
    const { payload } = await jwtVerify(token, keys, {
      issuer: shop.serverMetadata().issuer,
      audience: CLIENT_ID,
      typ: 'logout+jwt',
      requiredClaims: ['iat', 'exp', 'jti', 'events'],
    });
    if ('nonce' in payload || !payload.events['http://schemas.openid.net/event/backchannel-logout']) throw new Error();
    for (const [browser, session] of sessions) if (session.sid === payload.sid) sessions.delete(browser);
    answer.writeHead(204).end();
  } catch {
    answer.writeHead(400).end();
  }
}

// The webhook: verify over the bytes as they came, skip what is known, answer.
function event({ request, body, answer }) {
  if (!isSigned(request.headers, body)) return answer.writeHead(401).end();
  const told = JSON.parse(body);
  if (told.type === 'order.created' && !told.test) {
    const known = orders.get(told.member_id) ?? new Map();
    orders.set(told.member_id, known.set(request.headers['idempotency-key'], told.data));
  }
  answer.writeHead(204).end();
}

function isSigned(headers, body) {
  const sent = Number(headers['webhook-timestamp']);
  if (!WEBHOOK_SECRET || !(Math.abs(Date.now() / 1000 - sent) <= 300)) return false;
  const secret = Buffer.from(WEBHOOK_SECRET.replace('whsec_', ''), 'base64');
  const mac = createHmac('sha256', secret).update(`${headers['webhook-id']}.${sent}.`).update(body).digest();
  return String(headers['webhook-signature'])
    .split(' ')
    .map((one) => Buffer.from(one.replace('v1,', ''), 'base64'))
    .some((given) => given.length === mac.length && timingSafeEqual(given, mac));
}

function home({ browser, answer }) {
  const session = sessions.get(browser);
  if (!session) return page(answer, 200, '<a class="button" href="/login">Sign in with the tea shop</a>');
  const lines = [...(orders.get(session.sub)?.values() ?? [])]
    .map((order) => `<li><span>${text(order.item)}</span><strong>${text(order.total.toFixed(2))}</strong></li>`)
    .join('');
  page(
    answer,
    200,
    `<p>Signed in as <strong id="name">${text(session.name)}</strong></p>
    <h2>Your orders</h2>
    ${lines ? `<ol>${lines}</ol>` : notice('We have not been told of any order yet.')}
    <form method="post" action="/logout"><button>Log out everywhere</button></form>`,
  );
}

const notice = (sentence) => `<p class="notice" role="status">${text(sentence)}</p>`;
const text = (value) => String(value).replace(/[&<>"']/g, (one) => `&#${one.charCodeAt(0)};`);
const random = () => randomBytes(24).toString('base64url');

function redirect(answer, url, browser) {
  const cookie = `${COOKIE}=${browser}; Path=/; HttpOnly; SameSite=Lax${ORIGIN.startsWith('https:') ? '; Secure' : ''}`;
  answer.writeHead(303, { location: String(url), 'set-cookie': cookie }).end();
}

function page(answer, status, content) {
  const headers = {
    'content-type': 'text/html; charset=utf-8',
    'cache-control': 'no-store',
    'content-security-policy': "default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'none'",
  };
  answer.writeHead(status, headers).end(`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark"><title>${text(NAME)}</title><link rel="icon" href="data:,"><style>
  :root { --paper: #f3f6f8; --card: #fff; --ink: #17242d; --soft: #566873; --line: #d5dee4; --accent: #0b5c7d; --on: #fff; }
  @media (prefers-color-scheme: dark) {
    :root { --paper: #11181d; --card: #1a242b; --ink: #e8eff3; --soft: #9db0bb; --line: #2e3b44; --accent: #7cc7e8; --on: #06222f; }
  }
  body { margin: 0; background: var(--paper); color: var(--ink); font: 1rem/1.55 system-ui, sans-serif; }
  main { max-width: 34rem; margin: 0 auto; padding: clamp(1.5rem, 7vw, 4rem) 1.25rem; }
  h1 { font-size: clamp(1.8rem, 7vw, 2.4rem); line-height: 1.15; letter-spacing: -.02em; margin: 0 0 1.25rem; }
  h2 { font-size: 1rem; color: var(--soft); margin: 2rem 0 .75rem; }
  ol { list-style: none; margin: 0; padding: 0; background: var(--card); border: 1px solid var(--line); border-radius: .75rem; }
  li { display: flex; justify-content: space-between; gap: 1rem; padding: .75rem 1rem; overflow-wrap: anywhere; }
  li + li { border-top: 1px solid var(--line); }
  li strong { font-variant-numeric: tabular-nums; }
  .notice { border: 1px dashed var(--line); border-radius: .75rem; padding: 1.25rem; color: var(--soft); margin: 0; }
  form { margin-top: 2rem; }
  button, .button {
    display: inline-block; min-height: 2.75rem; box-sizing: border-box; padding: .6rem 1.2rem; border: 0;
    border-radius: .5rem; background: var(--accent); color: var(--on); font: inherit; font-weight: 600;
    text-decoration: none; cursor: pointer;
  }
  :focus-visible { outline: 3px solid var(--accent); outline-offset: 2px; }
</style></head><body><main><h1>${text(NAME)}</h1>${content}</main></body></html>`);
}

async function read(request) {
  const parts = [];
  let size = 0;
  for await (const part of request) {
    size += part.length;
    if (size > 300_000) throw new Error('too large');
    parts.push(part);
  }
  return Buffer.concat(parts);
}

http
  .createServer(async (request, answer) => {
    try {
      const url = new URL(request.url, ORIGIN);
      const route = routes[`${request.method} ${url.pathname}`];
      if (!route) return answer.writeHead(404).end();
      const cookie = new RegExp(`(?:^|; )${COOKIE}=([\\w-]+)`).exec(request.headers.cookie ?? '');
      await route({ request, answer, url, browser: cookie?.[1] ?? random(), body: await read(request) });
    } catch (error) {
      console.error(error);
      if (!answer.headersSent) answer.writeHead(500);
      answer.end();
    }
  })
  .listen(Number(PORT), '127.0.0.1', () => console.log(`${NAME} is at ${ORIGIN}/`));
