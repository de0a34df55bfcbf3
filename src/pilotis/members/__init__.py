"""App members: the end users of an app."""
