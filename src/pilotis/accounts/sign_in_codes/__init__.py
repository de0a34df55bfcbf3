"""Codes by which a page of the server gives a sign-in to the page of the app that asked for it."""
