// A strict OpenID provider on loopback, whose one person agrees to everything; the program ends with its standard input.
import { Provider } from 'oidc-provider';

const { port, redirect_uri } = JSON.parse(process.argv[2]);
const provider = new Provider(`http://127.0.0.1:${port}`, {
  clients: [
    {
      client_id: 'pilotis',
      client_secret: 'simpleSecret_0123456789-abcdef',
      redirect_uris: [redirect_uri],
      token_endpoint_auth_method: 'client_secret_post',
    },
  ],
  claims: { profile: ['name'], email: ['email', 'email_verified'] },
  findAccount: (_, id) => ({
    accountId: id,
    claims: () => ({ sub: id, name: 'Grace', email: 'grace@example.test', email_verified: true }),
  }),
  features: { devInteractions: { enabled: true } },
  pkce: { required: () => true },
});
provider.listen(port, '127.0.0.1', () => console.log('ready'));
process.stdin.resume().on('end', () => process.exit(0));
