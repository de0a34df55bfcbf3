"""A member's own accounts at vendors."""
