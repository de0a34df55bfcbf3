"""Uploads, in one request or resumable."""
