"""Queries: aggregation, search and geo."""
