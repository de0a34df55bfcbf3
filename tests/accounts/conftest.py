"""A server whose mails are in the mailbox, and apps on it."""

from tests.mail.conftest import app, authority, mail_console, mail_server, other_app

__all__ = ["app", "authority", "mail_console", "mail_server", "other_app"]
