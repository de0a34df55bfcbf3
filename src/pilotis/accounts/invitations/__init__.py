"""Invitations to become a member of an app."""
