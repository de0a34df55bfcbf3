// The whole flow as openid-client 6 does it, each step one line of output: `ok` or `FAIL`, and its name.
//   node openid_flow.mjs '{"base", "public_key", "login_id", "password", "strong": {login_id, password, recovery_code}, "port", "confidential": {id, secret}, "spa": {id}}'
import http from 'node:http';
import * as client from 'openid-client';
import { finish, ok, refused } from './steps.mjs';

const given = JSON.parse(process.argv[2]);
const { base, confidential, spa } = given;
const CALLBACK = `http://127.0.0.1:${given.port}/cb`;
const OUT = `http://127.0.0.1:${given.port}/out`;

const logouts = [];
const receiver = http
  .createServer((request, answer) => {
    let body = '';
    request
      .on('data', (part) => {
        body += part;
      })
      .on('end', () => {
        logouts.push(body);
        answer.writeHead(200).end();
      });
  })
  .listen(given.port, '127.0.0.1');

// A browser: cookies, redirects, and the calls of the consent page.
const jar = new Map();
async function visit(url, init = {}) {
  const cookie = [...jar].map(([name, value]) => `${name}=${value}`).join('; ');
  const answer = await fetch(url, { ...init, redirect: 'manual', headers: { ...init.headers, cookie } });
  for (const line of answer.headers.getSetCookie()) {
    const [pair] = line.split(';');
    const at = pair.indexOf('=');
    jar.set(pair.slice(0, at), pair.slice(at + 1));
  }
  return answer;
}
async function api(method, path, headers, body) {
  const answer = await visit(base + path, {
    method,
    headers: { origin: base, 'content-type': 'application/json', ...headers },
    body: body && JSON.stringify(body),
  });
  if (!answer.ok && answer.status !== 401) throw new Error(`${path}: ${answer.status} ${await answer.text()}`);
  return answer.json();
}
const MEMBERS = '/v1/public/app-members';
let member = given;
async function consent(page) {
  const request_id = page.searchParams.get('request_id');
  const session = await visit(`${base}/oauth/consent/session`, {
    method: 'POST',
    headers: { origin: base },
    body: new URLSearchParams({ request_id }),
  });
  let token = session.ok ? (await session.json()).access_token : null;
  const bearer = () => ({ authorization: `Bearer ${token}` });
  const info = () => api('GET', `/v1/oauth/consent/info?request_id=${request_id}`, bearer());
  if (!token || (await info()).reauthentication_required) {
    const { login_id, password, recovery_code } = member;
    const key = { 'x-public-key': given.public_key };
    let entered = await api('POST', `${MEMBERS}/signin`, key, { login_id, password });
    if (entered.code === 'SECOND_FACTOR_REQUIRED')
      entered = await api('POST', `${MEMBERS}/second-factor`, key, { ticket: entered.ticket, recovery_code });
    token = entered.access_token;
  }
  await info();
  return (await api('POST', '/v1/oauth/consent/approve', bearer(), { request_id })).redirect_to;
}
async function browse(start) {
  let url = start;
  for (let step = 0; step < 20; step++) {
    if (url.href.startsWith(CALLBACK) || url.href.startsWith(OUT)) return url;
    const next =
      url.pathname === '/oauth/consent' ? await consent(url) : (await visit(url)).headers.get('location');
    url = new URL(next, url);
  }
  throw new Error('no end of redirects');
}

const options = { execute: [client.allowInsecureRequests] };
const discovered = (id, metadata, method) => client.discovery(new URL(base), id, metadata, method, options);
const shop = await discovered(
  confidential.id,
  { client_secret: confidential.secret },
  client.ClientSecretBasic(confidential.secret),
);
// Without it openid-client does not look at the ID token's signature.
client.enableNonRepudiationChecks(shop);
ok('discovery', shop.serverMetadata().issuer === base && shop.serverMetadata().supportsPKCE());

const DPoP = client.getDPoPHandle(shop, await client.randomDPoPKeyPair('ES256'));
async function begin() {
  const verifier = client.randomPKCECodeVerifier();
  return {
    verifier,
    state: client.randomState(),
    nonce: client.randomNonce(),
    challenge: await client.calculatePKCECodeChallenge(verifier),
  };
}
const query = (begun, scope, more = {}) => ({
  redirect_uri: CALLBACK,
  scope,
  state: begun.state,
  nonce: begun.nonce,
  code_challenge: begun.challenge,
  code_challenge_method: 'S256',
  ...more,
});

let begun = await begin();
const pushed = await client.buildAuthorizationUrlWithPAR(
  shop,
  query(begun, 'openid profile email offline_access', { prompt: 'consent', max_age: '3600' }),
  { DPoP },
);
ok('pushed request', [...pushed.searchParams.keys()].sort().join() === 'client_id,request_uri');
const back = await browse(pushed);
ok('iss in the answer', back.searchParams.get('iss') === base);
const tokens = await client.authorizationCodeGrant(
  shop,
  back,
  { pkceCodeVerifier: begun.verifier, expectedState: begun.state, expectedNonce: begun.nonce, maxAge: 3600 },
  undefined,
  { DPoP },
);
const claims = tokens.claims();
const thumbprint = await DPoP.calculateThumbprint();
ok('tokens, bound', tokens.token_type === 'dpop' && !!tokens.refresh_token && claims.sid && claims.auth_time);
ok('cnf in the answer', tokens.cnf?.jkt === thumbprint);
const info = await client.fetchUserInfo(shop, tokens.access_token, claims.sub, { DPoP });
ok('userinfo', info.sub === claims.sub);
const bare = await fetch(shop.serverMetadata().userinfo_endpoint, {
  headers: { authorization: `Bearer ${tokens.access_token}` },
});
ok('a bound token as Bearer is refused', bare.status === 401);
const introspected = await client.tokenIntrospection(shop, tokens.access_token);
ok('introspection', introspected.active && introspected.cnf?.jkt === thumbprint);
const refreshed = await client.refreshTokenGrant(shop, tokens.refresh_token, undefined, { DPoP });
ok('refresh', !!refreshed.access_token && refreshed.access_token !== tokens.access_token);
ok('a confidential client keeps its refresh token', refreshed.refresh_token === tokens.refresh_token);
const own = await client.clientCredentialsGrant(shop, {}, { DPoP });
ok('client_credentials', !!own.access_token && !own.refresh_token && !own.id_token);
const wrong = await discovered(confidential.id, undefined, client.ClientSecretBasic('wrong'));
await refused('wrong secret', () => client.clientCredentialsGrant(wrong, {}), (error) => error.status === 401);

// A public client without PAR; the browser is signed in by now.
const page = await discovered(spa.id, { token_endpoint_auth_method: 'none' }, client.None());
client.enableNonRepudiationChecks(page);
begun = await begin();
const again = await browse(
  client.buildAuthorizationUrl(page, query(begun, 'openid offline_access', { prompt: 'consent' })),
);
const checks = {
  pkceCodeVerifier: begun.verifier,
  expectedState: begun.state,
  expectedNonce: begun.nonce,
  idTokenExpected: true,
};
const bearer = await client.authorizationCodeGrant(page, again, checks);
ok('public client', bearer.token_type === 'bearer');
const next = (await client.refreshTokenGrant(page, bearer.refresh_token)).refresh_token;
const retried = (await client.refreshTokenGrant(page, bearer.refresh_token)).refresh_token;
ok('rotation; a retry gets the same successor', next !== bearer.refresh_token && next === retried);
const isGrant = (error) => error.error === 'invalid_grant';
await refused('a code works once', () => client.authorizationCodeGrant(page, again, checks), isGrant);
const dead = await fetch(page.serverMetadata().userinfo_endpoint, {
  headers: { authorization: `Bearer ${bearer.access_token}` },
});
ok("its second use ends the first one's tokens", dead.status === 401);
begun = await begin();
const plain = await browse(
  client.buildAuthorizationUrl(page, { ...query(begun, 'openid'), code_challenge_method: 'plain' }),
);
await refused(
  'plain is refused, by redirect',
  () =>
    client.authorizationCodeGrant(page, plain, { pkceCodeVerifier: begun.verifier, expectedState: begun.state }),
  (error) => error instanceof client.AuthorizationResponseError && error.error === 'invalid_request',
);
begun = await begin();
const silent = await browse(client.buildAuthorizationUrl(shop, query(begun, 'openid', { prompt: 'none' })));
ok('prompt=none while signed in', silent.searchParams.has('code'));
await client.tokenRevocation(shop, refreshed.refresh_token);
const gone = await client.tokenIntrospection(shop, refreshed.access_token);
ok('revocation', gone.active === false);

const end = await browse(
  client.buildEndSessionUrl(shop, { id_token_hint: tokens.id_token, post_logout_redirect_uri: OUT, state: 'bye' }),
);
ok('logout', end.href === `${OUT}?state=bye`);
for (let wait = 0; wait < 1200 && !logouts.length; wait++) await new Promise((done) => setTimeout(done, 50));
const token = logouts[0] && JSON.parse(Buffer.from(logouts[0].slice(13).split('.')[1], 'base64url'));
ok(
  'back-channel logout',
  logouts[0]?.startsWith('logout_token=') && token.sid === claims.sid && token.nonce === undefined,
);
begun = await begin();
const after = await browse(client.buildAuthorizationUrl(shop, query(begun, 'openid', { prompt: 'none' })));
ok('prompt=none after logout', after.searchParams.get('error') === 'login_required');

const LEVEL_2 = 'urn:pilotis:level:2';
ok('levels in the metadata', shop.serverMetadata().acr_values_supported.includes(LEVEL_2));
member = given.strong;
begun = await begin();
const raised = await browse(client.buildAuthorizationUrl(shop, query(begun, 'openid', { acr_values: LEVEL_2 })));
const strong = await client.authorizationCodeGrant(shop, raised, {
  pkceCodeVerifier: begun.verifier,
  expectedState: begun.state,
  expectedNonce: begun.nonce,
});
ok('acr_values get level 2', strong.claims().acr === LEVEL_2 && strong.claims().amr.join() === 'pwd,mfa');
receiver.close();
finish();
