"""Tokens with which a running function calls the API over HTTP."""
