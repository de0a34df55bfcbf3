"""Sessions: families of rotating refresh tokens, and their access tokens."""
