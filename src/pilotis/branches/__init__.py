"""Branches: copies of apps for previews, what differs between a branch and its parent, and its way back."""
