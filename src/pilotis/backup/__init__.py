"""Backups of a server with the embedded PostgreSQL: base backups, its write-ahead log, and the bytes of files."""
