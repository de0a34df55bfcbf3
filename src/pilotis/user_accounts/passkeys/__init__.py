"""Passkeys of console users."""
