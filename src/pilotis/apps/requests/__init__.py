"""The requests of an app: a log of those that matter, and how long all of them took."""
