"""Aggregation pipelines, compiled into one SQL statement."""
