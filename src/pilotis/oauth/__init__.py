"""The OAuth 2.0 and OpenID Connect provider: members sign in to clients, which get tokens for an app's API."""
