"""Authentication, sessions, rate limits, encryption and the audit log."""
