"""Loads: clients that work while the cluster is disturbed, and remember what they were told for the checkers."""
