"""PostgreSQL: the pool, the control connection, the embedded server and migrations."""
