"""Unique keys of tables."""
