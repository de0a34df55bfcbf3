"""Declarations of features about their secrets: their purposes, and the columns with secrets of the server."""

from __future__ import annotations

import enum
from typing import NamedTuple


class Purpose(enum.StrEnum):
    """The purpose of a secret. The value is part of its key and of its place, so it must never change."""

    WEBHOOK_SECRET = "webhook_secret"  # noqa: S105 - a name
    WEBHOOK_HEADERS = "webhook_headers"
    FUNCTION_VARIABLE = "function_variable"
    OAUTH_CLIENT = "oauth_client"
    OAUTH_SOCIAL_SECRET = "oauth_social_secret"  # noqa: S105 - a name
    OAUTH_SIGNING_KEY = "oauth_signing_key"
    IDEMPOTENT_REPLY = "idempotent_reply"
    WORKFLOW_TRIGGER = "workflow_trigger"
    WORKFLOW_REQUEST = "workflow_request"
    AI_PROVIDER = "ai_provider"
    MAIL_PASSWORD = "mail_password"  # noqa: S105 - a name
    MAIL_BODY = "mail_body"
    TOTP_SECRET = "totp_secret"  # noqa: S105 - a name
    RECOVERY_CODE = "recovery_code"
    ARCHIVE_PASSPHRASE = "archive_passphrase"  # noqa: S105 - a name
    CHALLENGE_SECRET = "challenge_secret"  # noqa: S105 - a name
    HTTPS_KEY = "https_key"


class EncryptedColumn(NamedTuple):
    """A column with secrets of the server under the master key, in a table of the schema `pilotis`.

    `name` is the table's unique text column that names each secret within its purpose.
    """

    table: str
    column: str
    name: str
    purpose: Purpose
