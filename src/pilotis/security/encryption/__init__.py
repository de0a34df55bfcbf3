"""Field-level encryption: keys per app, and the cipher of values."""
