// oauth4webapi 3 and arctic 3 as their users' programs call them; each step is one line of output: `ok` or `FAIL`.
//   node other_clients.mjs '{"base", "resource", "callback", "shop": {id, secret}, "spa": {id}}'
// For a line `visit <address>` the test answers with the parameters that come back to the callback, as one line of JSON.
import readline from 'node:readline';
import * as arctic from 'arctic';
import * as oauth from 'oauth4webapi';
import { finish, ok, refused } from './steps.mjs';

const given = JSON.parse(process.argv[2]);
const { base, callback, shop, spa } = given;
const lines = readline.createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const http = { [oauth.allowInsecureRequests]: true };

async function browse(url) {
  console.log(`visit ${url}`);
  return JSON.parse((await lines.next()).value);
}

async function withArctic(kind, id, secret) {
  const client = new arctic.OAuth2Client(id, secret, callback);
  const state = arctic.generateState();
  const verifier = arctic.generateCodeVerifier();
  const scopes = ['openid', 'offline_access'];
  const S256 = arctic.CodeChallengeMethod.S256;
  const url = client.createAuthorizationURLWithPKCE(`${base}/oauth/authorize`, state, S256, verifier, scopes);
  const back = await browse(url);
  ok(`arctic, ${kind}: state`, back.state === state);
  const tokens = await client.validateAuthorizationCode(`${base}/oauth/token`, back.code, verifier);
  ok(`arctic, ${kind}: scopes`, tokens.scopes().sort().join() === 'offline_access,openid');
  ok(`arctic, ${kind}: ID token`, arctic.decodeIdToken(tokens.idToken()).iss === base);
  ok(`arctic, ${kind}: expiry`, tokens.accessTokenExpiresAt() > new Date());
  const next = await client.refreshAccessToken(`${base}/oauth/token`, tokens.refreshToken(), []);
  ok(`arctic, ${kind}: refresh`, next.accessToken() !== tokens.accessToken());
  await client.revokeToken(`${base}/oauth/revoke`, next.refreshToken());
  const isGrant = (error) => error instanceof arctic.OAuth2RequestError && error.code === 'invalid_grant';
  const again = () => client.refreshAccessToken(`${base}/oauth/token`, next.refreshToken(), []);
  await refused(`arctic, ${kind}: after revocation`, again, isGrant);
}

await withArctic('confidential', shop.id, shop.secret);
await withArctic('public', spa.id, null);
await refused(
  'arctic: wrong secret',
  () => new arctic.OAuth2Client(shop.id, 'wrong', callback).refreshAccessToken(`${base}/oauth/token`, 'rt_x', []),
  (error) => error instanceof arctic.OAuth2RequestError && error.code === 'invalid_client',
);

const issuer = new URL(base);
const as = await oauth.processDiscoveryResponse(issuer, await oauth.discoveryRequest(issuer, http));
const plain = await oauth.discoveryRequest(issuer, { ...http, algorithm: 'oauth2' });
ok('discovery', (await oauth.processDiscoveryResponse(issuer, plain)).token_endpoint === as.token_endpoint);
await refused(
  'discovery of another issuer',
  async () => oauth.processDiscoveryResponse(new URL('https://other.example'), await oauth.discoveryRequest(issuer, http)),
);
const client = { client_id: shop.id };
const secret = oauth.ClientSecretBasic(shop.secret);

async function begin(more = {}) {
  const verifier = oauth.generateRandomCodeVerifier();
  const sent = {
    response_type: 'code',
    client_id: shop.id,
    redirect_uri: callback,
    scope: 'openid profile',
    state: oauth.generateRandomState(),
    nonce: oauth.generateRandomNonce(),
    code_challenge: await oauth.calculatePKCECodeChallenge(verifier),
    code_challenge_method: 'S256',
    ...more,
  };
  return { verifier, sent };
}
async function exchange(verifier, back, state, options = {}) {
  const parameters = oauth.validateAuthResponse(as, client, new URLSearchParams(back), state);
  const all = { ...http, ...options };
  return oauth.authorizationCodeGrantRequest(as, client, secret, parameters, callback, verifier, all);
}

{
  const { verifier, sent } = await begin();
  const back = await browse(`${as.authorization_endpoint}?${new URLSearchParams(sent)}`);
  const check = (changed, state) => () =>
    oauth.validateAuthResponse(as, client, new URLSearchParams({ ...back, ...changed }), state);
  await refused('another state', async () => check({}, 'other')());
  await refused('another iss', async () => check({ iss: 'https://other.example' }, sent.state)());
  const response = await exchange(verifier, back, sent.state);
  const options = { expectedNonce: sent.nonce, requireIdToken: true };
  const tokens = await oauth.processAuthorizationCodeResponse(as, client, response, options);
  await oauth.validateApplicationLevelSignature(as, response, http);
  const claims = oauth.getValidatedIdTokenClaims(tokens);
  ok('code and ID token', claims.nonce === sent.nonce && claims.aud === shop.id);
  const info = await oauth.userInfoRequest(as, client, tokens.access_token, http);
  ok('userinfo', (await oauth.processUserInfoResponse(as, client, claims.sub, info)).sub === claims.sub);

  const request = (token) => new Request(given.resource, { headers: { authorization: `Bearer ${token}` } });
  const checked = await oauth.validateJwtAccessToken(as, request(tokens.access_token), given.resource, http);
  ok('a resource server takes the access token', checked.sub === claims.sub && checked.client_id === shop.id);
  const wrong = (token, audience) => () => oauth.validateJwtAccessToken(as, request(token), audience, http);
  await refused('another audience', wrong(tokens.access_token, 'https://other.example'));
  await refused('an ID token as access token', wrong(tokens.id_token, shop.id));

  const introspect = async () => {
    const answer = await oauth.introspectionRequest(as, client, secret, tokens.access_token, http);
    return oauth.processIntrospectionResponse(as, client, answer);
  };
  ok('introspection', (await introspect()).active === true);
  const revoked = await oauth.revocationRequest(as, client, secret, tokens.access_token, http);
  await oauth.processRevocationResponse(revoked);
  ok('introspection after revocation', (await introspect()).active === false);
  await refused(
    'a code again',
    async () => oauth.processAuthorizationCodeResponse(as, client, await exchange(verifier, back, sent.state)),
    (error) => error instanceof oauth.ResponseBodyError && error.error === 'invalid_grant' && error.status === 400,
  );
}
{
  const DPoP = oauth.DPoP(client, await oauth.generateKeyPair('ES256'));
  const { verifier, sent } = await begin();
  const push = () => oauth.pushedAuthorizationRequest(as, client, secret, sent, { ...http, DPoP });
  const pushed = await oauth.processPushedAuthorizationResponse(as, client, await push());
  const query = new URLSearchParams({ client_id: shop.id, request_uri: pushed.request_uri });
  const back = await browse(`${as.authorization_endpoint}?${query}`);
  const response = await exchange(verifier, back, sent.state, { DPoP });
  const tokens = await oauth.processAuthorizationCodeResponse(as, client, response, { expectedNonce: sent.nonce });
  ok('pushed request with DPoP', tokens.token_type === 'dpop');
  const { sub } = oauth.getValidatedIdTokenClaims(tokens);
  const info = await oauth.userInfoRequest(as, client, tokens.access_token, { ...http, DPoP });
  ok('userinfo with DPoP', (await oauth.processUserInfoResponse(as, client, sub, info)).sub === sub);
  await refused(
    'the bound token without its key',
    async () => oauth.processUserInfoResponse(as, client, sub, await oauth.userInfoRequest(as, client, tokens.access_token, http)),
    (error) => error instanceof oauth.WWWAuthenticateChallengeError && error.status === 401,
  );
}
finish();
