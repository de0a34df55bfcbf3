"""Rows: create, read, query, change, delete."""
