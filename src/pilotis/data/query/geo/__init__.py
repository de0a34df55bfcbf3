"""Geo search."""
