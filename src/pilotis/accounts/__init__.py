"""Accounts: proofs that are mailed to members."""
