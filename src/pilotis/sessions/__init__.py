"""Sessions: a family of rotating refresh tokens, and the access tokens that live by it."""
