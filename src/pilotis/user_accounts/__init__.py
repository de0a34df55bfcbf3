"""Second factors of console users, and their forgotten passwords by mail."""
