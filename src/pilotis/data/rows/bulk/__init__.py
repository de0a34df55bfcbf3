"""Rows in batches and whole tables."""
