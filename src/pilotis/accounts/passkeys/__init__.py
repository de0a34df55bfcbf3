"""Passkeys of members (WebAuthn)."""
