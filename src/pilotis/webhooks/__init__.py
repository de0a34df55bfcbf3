"""Webhooks: an app's events, delivered to URLs."""
