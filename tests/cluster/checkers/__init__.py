"""Checkers: pure functions that compare what clients were told with what the cluster did, and name each contradiction.

Each takes a history and returns findings; an empty list says that the history keeps the promise. They know nothing of
HTTP or PostgreSQL, and times are seconds of one clock.
"""
