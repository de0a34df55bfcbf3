"""The token endpoint, and what clients do with issued tokens."""
