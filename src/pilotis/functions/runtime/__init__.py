"""Sandboxes for functions: isolation of a process, the protocol with it, and the pool."""
