"""Idempotency keys: reserve, store the response, expire."""
