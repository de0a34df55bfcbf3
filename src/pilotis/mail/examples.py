"""Examples of the routes of mail."""

from __future__ import annotations

from pilotis.http.api.example import Example

_ID = "0198c0de-0000-7000-8000-000000000001"
_TIME = "2026-11-27T12:00:00.000Z"
_HASH = "5e884898da28047151d0e56f8dc6292773603d0d6aabbdd62a11ef721d1542d8"
_NONE = {
    "source": "mailbox",
    "smtp_url": None,
    "has_password": False,
    "mail_from": None,
    "mail_reply_to": None,
    "mail_per_day": 0,
    "server_from": None,
}
_ITEM = {
    "mail_id": _ID,
    "purpose": "test",
    "recipient": "owner@example.com",
    "member_id": None,
    "language": "en",
    "subject": "Test mail from Cafe guide",
    "state": "stored",
    "attempts": 0,
    "reply": None,
    "created_at": _TIME,
    "sent_at": None,
    "expires_at": None,
}
_TEMPLATE = {
    "purpose": "reset_password",
    "language": "en",
    "subject": "A new password for {{app.name}}",
    "is_custom": True,
    "updated_at": _TIME,
}
_OWN = {
    "subject": "A new password for {{app.name}}",
    "text": "Choose a new password within {{expires}}:\n\n{{link}}\n\nSee you soon at the cafe!",
    "button": "New password",
}
_LINK = f"http://127.0.0.1:8090/account/{_ID}/preview"
_PATH = {"purpose": "reset_password", "language": "en"}
_TEMPLATE_ROUTE = "/v1/apps/:app_id/mail-templates/:purpose/:language"
_SUPPRESSION = {"address_hash": _HASH, "reason": "manual", "created_at": _TIME}

EXAMPLES = [
    Example(
        route="POST /v1/apps/:app_id/mail/send",
        operation="createMail",
        body={"to": "grace@example.com", "subject": "Your order", "text": "Thank you! It is on its way."},
        answer={"mail_id": _ID, "state": "stored"},
    ),
    Example(route="GET /v1/apps/:app_id/mail-settings", operation="getMailSettings", answer=_NONE),
    Example(
        route="PUT /v1/apps/:app_id/mail-settings",
        operation="replaceMailSettings",
        body={"smtp_url": "smtp://cafes:example@localhost:2525", "mail_from": "Cafes <cafes@example.com>"},
        answer={
            **_NONE,
            "source": "app",
            "smtp_url": "smtp://cafes@localhost:2525",
            "has_password": True,
            "mail_from": "Cafes <cafes@example.com>",
        },
    ),
    Example(
        route="DELETE /v1/apps/:app_id/mail-settings",
        operation="deleteMailSettings",
        answer={"message": "Mail settings deleted.", "id": _ID},
    ),
    Example(
        route="POST /v1/apps/:app_id/mail-settings/test",
        operation="testMailSettings",
        answer={"recipient": "owner@example.com", "state": "stored", "reply": None},
    ),
    Example(
        route="GET /v1/apps/:app_id/mail",
        operation="listMails",
        answer={"data": [_ITEM], "total_count": 1, "limit": 20, "offset": 0},
    ),
    Example(
        route="GET /v1/apps/:app_id/mail/:mail_id",
        operation="getMail",
        path={"mail_id": "$MAIL_ID"},
        answer={
            **_ITEM,
            "text": "This is a test. Mails of Cafe guide reach you.\n",
            "html": "<!doctype html>…",
            "link": None,
            "code": None,
            "button": None,
        },
    ),
    Example(
        route="POST /v1/apps/:app_id/mail/:mail_id/retry",
        operation="retryMail",
        path={"mail_id": "$FAILED_MAIL_ID"},
        answer={**_ITEM, "state": "queued"},
    ),
    Example(
        route="GET /v1/apps/:app_id/mail/suppressions",
        operation="listMailSuppressions",
        answer={"data": [_SUPPRESSION], "total_count": 1, "limit": 20, "offset": 0},
    ),
    Example(
        route="POST /v1/apps/:app_id/mail/suppressions",
        operation="createMailSuppression",
        body={"address": "gone@example.com"},
        answer=_SUPPRESSION,
    ),
    Example(
        route="DELETE /v1/apps/:app_id/mail/suppressions/:address_hash",
        operation="deleteMailSuppression",
        path={"address_hash": "$ADDRESS_HASH_ID"},
        answer={"message": "Suppression deleted.", "id": _HASH},
    ),
    Example(
        route="GET /v1/apps/:app_id/mail-templates",
        operation="listMailTemplates",
        answer={
            "templates": [
                {
                    "purpose": "verify_email",
                    "language": "en",
                    "subject": "Confirm your e-mail address for {{app.name}}",
                    "is_custom": False,
                    "updated_at": None,
                },
                "…",
            ]
        },
    ),
    Example(
        route=f"GET {_TEMPLATE_ROUTE}",
        operation="getMailTemplate",
        path={"purpose": "address_in_use", "language": "en"},
        answer={
            "purpose": "address_in_use",
            "language": "en",
            "subject": "You already have an account with {{app.name}}",
            "is_custom": False,
            "updated_at": None,
            "text": "Somebody signed up for {{app.name}} with this e-mail address…",
            "button": "",
            "html": None,
            "variables": ["app.name"],
        },
    ),
    Example(
        route=f"PUT {_TEMPLATE_ROUTE}",
        operation="replaceMailTemplate",
        path=_PATH,
        body=_OWN,
        answer={**_TEMPLATE, **_OWN, "html": None, "variables": ["app.name", "expires", "link"]},
    ),
    Example(
        route=f"DELETE {_TEMPLATE_ROUTE}",
        operation="deleteMailTemplate",
        path=_PATH,
        answer={"message": "The shipped text is used again.", "id": "reset_password/en"},
    ),
    Example(
        route=f"POST {_TEMPLATE_ROUTE}/preview",
        operation="previewMailTemplate",
        path=_PATH,
        body=_OWN,
        answer={
            "subject": "A new password for Cafe guide",
            "text": "Choose a new password within 1 hour:\n\n" + _LINK + "\n\nSee you soon at the cafe!\n",
            "html": "<!doctype html>…",
            "link": _LINK,
            "code": None,
            "button": "New password",
        },
    ),
]
