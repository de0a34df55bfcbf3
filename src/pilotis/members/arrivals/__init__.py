"""Rows that are made with members."""
