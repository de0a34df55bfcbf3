"""The types of mail."""

from __future__ import annotations

from typing import Annotated, Literal
from uuid import UUID

import msgspec

from pilotis.http.api.schemas import Email, Paging
from pilotis.kit.errors import invalid
from pilotis.kit.languages import Language

MAX_TEXT = 2048

Purpose = Literal[
    "verify_email",
    "reset_password",
    "address_in_use",
    "sign_in",
    "change_email",
    "address_changed",
    "security_notice",
    "invitation",
    "team_invitation",
    "account_deleted",
    "account_deletion",
    "export_ready",
    "test",
    "message",
]
"""What a mail is for."""

State = Literal["queued", "sent", "deferred", "bounced", "failed", "expired", "suppressed", "stored"]
"""`queued` and `deferred` mails will be sent; `stored` ones are only shown, because there is no SMTP server."""

Source = Literal["app", "server", "mailbox"]

_Text = Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_TEXT)]


class MailSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How an app's mails are sent: by its own SMTP server, by the server's, or not at all (`mailbox`).

    `smtp_url` has no password. `mail_per_day` is how many mails the app may send in 24 hours by the server's SMTP
    server; 0 = unlimited. `server_from` is the sender of the server's SMTP server, null if it has none.
    """

    source: Source
    smtp_url: str | None
    has_password: bool
    mail_from: str | None
    mail_reply_to: str | None
    mail_per_day: int
    server_from: str | None


class NewMailSettings(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """An app's own SMTP server. The password is part of `smtp_url`; without it the one before stays."""

    smtp_url: Annotated[_Text, msgspec.Meta(examples=["smtp://user:password@smtp.example.com:587"])]
    mail_from: Annotated[_Text, msgspec.Meta(examples=["Club <club@example.com>"])]
    mail_reply_to: _Text | None = None


class DeletedMailSettings(msgspec.Struct, frozen=True):
    """The app whose own SMTP server was removed."""

    message: str
    id: UUID


class MailTest(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a test mail to the caller's own address; `reply` is the SMTP server's or says what failed."""

    recipient: str
    state: Literal["sent", "failed", "stored"]
    reply: str | None


class MailMessage(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A mail of the app's own, to a member with a verified address or to any address.

    `text` has paragraphs, separated by empty lines; without `html` it is made from them.
    """

    member_id: Annotated[str, msgspec.Meta(max_length=60)] | None = None
    to: Email | None = None
    subject: Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
    text: Annotated[str, msgspec.Meta(min_length=1, max_length=64_000)]
    html: Annotated[str, msgspec.Meta(max_length=256_000)] | None = None
    language: Language | None = None

    def __post_init__(self) -> None:
        """Require one recipient."""
        if (self.member_id is None) == (self.to is None):
            raise invalid("to", "Either member_id or to is expected.")


class SentMail(msgspec.Struct, frozen=True):
    """The mail that will be sent; its state is at `GET …/mail/:mail_id`."""

    mail_id: UUID
    state: State


class MailQuery(Paging, forbid_unknown_fields=True):
    """Filters of the list of mails."""

    state: State | None = None
    purpose: Purpose | None = None
    member_id: str | None = None


class MailItem(msgspec.Struct, frozen=True, kw_only=True):
    """A mail without its text; `reply` is the SMTP server's last one."""

    mail_id: UUID
    purpose: str
    recipient: str
    member_id: str | None
    language: str
    subject: str
    state: State
    attempts: int
    reply: str | None
    created_at: str
    sent_at: str | None
    expires_at: str | None


class MailPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of an app's mails, newest first."""

    data: list[MailItem]
    total_count: int
    limit: int
    offset: int


class Mail(MailItem, frozen=True, kw_only=True):
    """A mail. Only one in the state `stored` has its text, with the link and the code that it contains.

    `button` is the label of the link in `html`.
    """

    text: str | None
    html: str | None
    link: str | None
    code: str | None
    button: str | None


class MailTemplateItem(msgspec.Struct, frozen=True, kw_only=True):
    """A text of mails of one purpose in one language; `is_custom` if it is the app's own, not the shipped one."""

    purpose: Purpose
    language: Language
    subject: str
    is_custom: bool
    updated_at: str | None


class MailTemplates(msgspec.Struct, frozen=True):
    """All texts of an app's mails."""

    templates: list[MailTemplateItem]


class MailTemplate(MailTemplateItem, frozen=True, kw_only=True):
    """A text of mails. Paragraphs are separated by empty lines; `{{name}}` stands for each of `variables`.

    A paragraph that is `{{link}}` alone becomes a button, whose label is `button`; one that is `{{code}}` alone is
    shown large. `html` is the app's own; null where it is made from the paragraphs.
    """

    text: str
    button: str
    html: str | None
    variables: list[str]


class NewMailTemplate(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """An app's own text. `{{link}}` and `{{code}}` have to be paragraphs of their own where the mail has them.

    Without `button` the link has the shipped label, without `html` that is made from the paragraphs. It has the same
    variables, whose values are escaped, and is not used for a mail that lacks one of them.
    """

    subject: Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
    text: Annotated[str, msgspec.Meta(min_length=1, max_length=16_000)]
    button: Annotated[str, msgspec.Meta(max_length=100)] | None = None
    html: Annotated[str, msgspec.Meta(max_length=64_000)] | None = None


class MailPreview(msgspec.Struct, frozen=True, kw_only=True):
    """A mail with a made-up link and code; `button` is the label of the link in `html`."""

    subject: str
    text: str
    html: str
    link: str | None
    code: str | None
    button: str | None


class DeletedMailTemplate(msgspec.Struct, frozen=True):
    """The purpose and the language whose shipped text is used again."""

    message: str
    id: str


class NewSuppression(msgspec.Struct, forbid_unknown_fields=True):
    """An address that gets no mail from the app any more."""

    address: Email


class Suppression(msgspec.Struct, frozen=True, kw_only=True):
    """An address that gets no mail from the app; only its hash is stored."""

    address_hash: str
    reason: Literal["bounced", "manual"]
    created_at: str


class SuppressionPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of an app's suppressions, newest first."""

    data: list[Suppression]
    total_count: int
    limit: int
    offset: int


class DeletedSuppression(msgspec.Struct, frozen=True):
    """The hash of the address that gets mail again."""

    message: str
    id: str
