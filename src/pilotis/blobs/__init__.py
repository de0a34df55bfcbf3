"""Blob storage: one protocol, implemented by a local directory and by object stores."""
