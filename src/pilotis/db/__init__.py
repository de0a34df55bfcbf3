"""PostgreSQL: the pool, the embedded server, migrations and notifications."""
