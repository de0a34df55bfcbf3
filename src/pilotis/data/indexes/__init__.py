"""Automatic indexes: slow queries are recorded, and the indexes they lack are built in the background."""
