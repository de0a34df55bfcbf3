"""Workflows: definitions of steps, which the server runs to completion even if processes die."""
