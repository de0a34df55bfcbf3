"""Where bytes live: one protocol, a local directory and object stores behind it."""
