"""A member's own sessions."""
