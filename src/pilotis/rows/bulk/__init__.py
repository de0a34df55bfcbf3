"""Rows by the batch and by the table."""
