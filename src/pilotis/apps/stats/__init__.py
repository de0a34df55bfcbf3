"""Usage statistics of an app."""
