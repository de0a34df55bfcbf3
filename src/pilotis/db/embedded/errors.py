"""The error of the embedded server."""


class EmbeddedPostgresError(Exception):
    """The embedded PostgreSQL cannot run; the message is a full sentence that says what the user can do."""
