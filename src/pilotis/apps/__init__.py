"""Apps, the tenants, with their keys and settings."""
