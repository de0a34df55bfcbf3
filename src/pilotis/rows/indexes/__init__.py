"""Indexes that appear by themselves: what queries read by is noted, and what is missing is built in the background."""
