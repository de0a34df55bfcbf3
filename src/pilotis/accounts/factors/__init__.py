"""Second factors of members: authenticator apps and recovery codes."""
