"""Trying rules: as whom, and what they say of a file."""
