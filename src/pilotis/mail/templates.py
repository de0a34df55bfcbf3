"""An app's own texts of mails, in place of the shipped ones."""

from __future__ import annotations

import re
import typing
from datetime import timedelta
from uuid import UUID

from pilotis.db.pool import Database
from pilotis.http.api.principals import Actor, AppInfo
from pilotis.kit.clock import rfc3339
from pilotis.kit.errors import NotFoundError, invalid
from pilotis.kit.languages import LANGUAGES, Language
from pilotis.mail import store
from pilotis.mail.composing import Template, compose, shipped, variables_of
from pilotis.mail.store import StoredTemplate
from pilotis.mail.types import (
    MailPreview,
    MailTemplate,
    MailTemplateItem,
    MailTemplates,
    NewMailTemplate,
    Purpose,
)
from pilotis.security.audit.service import record

PURPOSES: tuple[Purpose, ...] = tuple(one for one in typing.get_args(Purpose) if one not in {"test", "message"})
"""What mails members get; the text of a test mail is not the app's."""

_IN_BRACES = re.compile(r"\{\{(.*?)\}\}", re.DOTALL)
_PARAGRAPHS = re.compile(r"\n[ \t]*(?:\n[ \t]*)+")
_SUBJECT_VARIABLES = frozenset({"app.name"})
# What a mail is about has to be in it.
_REQUIRED = ("link", "code")
_SAMPLES: dict[str, str | timedelta] = {
    "code": "123456",
    "expires": timedelta(hours=1),
    "code_expires": timedelta(minutes=10),
}


class MailTemplateNotFoundError(NotFoundError):
    """404: no mail has this purpose, or none is written in this language."""

    code = "MAIL_TEMPLATE_NOT_FOUND"
    message = f"There is no such mail. Purposes: {', '.join(PURPOSES)}; languages: {', '.join(LANGUAGES)}."


class OwnTemplates:
    """The texts of an app's mails: shipped, unless the app has its own."""

    def __init__(self, database: Database, base_url: str) -> None:
        self._database = database
        self._base_url = base_url

    async def all(self, app_id: UUID) -> MailTemplates:
        """Return which texts there are, in the order of purposes and languages."""
        own = {(one.purpose, one.language): one for one in await store.templates(self._database.of(app_id), app_id)}
        return MailTemplates(
            [_item(purpose, language, own.get((purpose, language))) for purpose in PURPOSES for language in LANGUAGES]
        )

    async def read(self, app_id: UUID, purpose_name: str, language_name: str) -> MailTemplate:
        """Return a text; raises `MailTemplateNotFoundError`."""
        purpose, language = _known(purpose_name, language_name)
        own = await store.template(self._database.of(app_id), app_id, purpose, language)
        return _shown(purpose, language, own)

    async def put(
        self, app_id: UUID, actor: Actor, purpose_name: str, language_name: str, new: NewMailTemplate
    ) -> MailTemplate:
        """Replace a text by the app's own."""
        purpose, language = _known(purpose_name, language_name)
        template = checked(purpose, language, new)
        async with self._database.transaction(app_id) as connection:
            text = "\n\n".join(template.text)
            own = await store.put_template(
                connection, app_id, purpose, language, template.subject, text, template.button, template.html
            )
            await record(connection, app_id, actor, "mail_template.put", f"{purpose}/{language}")
        return _shown(purpose, language, own)

    async def restore(self, app_id: UUID, actor: Actor, purpose_name: str, language_name: str) -> None:
        """Use the shipped text again."""
        purpose, language = _known(purpose_name, language_name)
        async with self._database.transaction(app_id) as connection:
            if await store.delete_template(connection, app_id, purpose, language):
                await record(connection, app_id, actor, "mail_template.delete", f"{purpose}/{language}")

    def preview(self, app: AppInfo, purpose_name: str, language_name: str, new: NewMailTemplate) -> MailPreview:
        """Return the mail that a text gives, with a made-up link and code; nothing is stored or sent."""
        purpose, language = _known(purpose_name, language_name)
        template = checked(purpose, language, new)
        names = variables_of(purpose)
        link = f"{self._base_url}/account/{app.app_id}/preview" if "link" in names else None
        samples = {**_SAMPLES, "app.name": app.name, "link": link or ""}
        mail = compose(language, purpose, {name: samples[name] for name in names}, template)
        return MailPreview(
            subject=mail.subject,
            text=mail.text,
            html=mail.html,
            link=link,
            code=str(_SAMPLES["code"]) if "code" in names else None,
            button=mail.button,
        )


def template_of(own: StoredTemplate) -> Template:
    """Return the template that is stored."""
    return Template(own.subject, _paragraphs(own.text), own.button, own.html)


def checked(purpose: Purpose, language: Language, new: NewMailTemplate) -> Template:
    """Return the template that a text gives; raises a 400 with the field of the fault."""
    names = variables_of(purpose)
    subject, text = new.subject.strip(), new.text.replace("\r\n", "\n").strip()
    if not subject or not subject.isprintable():
        raise invalid("subject", "subject: one line of text is expected.")
    if not text or not text.replace("\n", "").replace("\t", "").isprintable():
        raise invalid("text", "text: a text without control characters is expected.")
    _require_known("subject", subject, _SUBJECT_VARIABLES)
    _require_known("text", text, names)
    paragraphs = _paragraphs(text)
    for name in _REQUIRED:
        if name in names and f"{{{{{name}}}}}" not in paragraphs:
            raise invalid("text", f"text: a paragraph of its own is expected that is {{{{{name}}}}}.")
    button = (new.button or "").strip()
    if not button.isprintable() or "{{" in button:
        raise invalid("button", "button: one line of text without variables is expected.")
    if "link" not in names and button:
        raise invalid("button", "button: this mail has no link.")
    html = new.html.strip() if new.html and new.html.strip() else None
    if html is not None:
        _require_known("html", html, names)
        for name in _REQUIRED:
            if name in names and f"{{{{{name}}}}}" not in html:
                raise invalid("html", f"html: {{{{{name}}}}} is expected in it.")
    return Template(subject, paragraphs, button or shipped(language, purpose).button, html)


def _require_known(field: str, text: str, names: frozenset[str]) -> None:
    unknown = next((found[1] for found in _IN_BRACES.finditer(text) if found[1] not in names), None)
    if unknown is None and text.count("{{") == len(_IN_BRACES.findall(text)):
        return
    said = "an opening {{ has no end" if unknown is None else f"there is no variable {{{{{unknown[:40]}}}}} here"
    raise invalid(field, f"{field}: {said}. Variables: {', '.join(f'{{{{{name}}}}}' for name in sorted(names))}.")


def _paragraphs(text: str) -> list[str]:
    return [paragraph.strip() for paragraph in _PARAGRAPHS.split(text)]


def _known(purpose_name: str, language_name: str) -> tuple[Purpose, Language]:
    purpose = next((one for one in PURPOSES if one == purpose_name), None)
    language = next((one for one in LANGUAGES if one == language_name), None)
    if purpose is None or language is None:
        raise MailTemplateNotFoundError
    return purpose, language


def _item(purpose: Purpose, language: Language, own: StoredTemplate | None) -> MailTemplateItem:
    return MailTemplateItem(
        purpose=purpose,
        language=language,
        subject=own.subject if own else shipped(language, purpose).subject,
        is_custom=own is not None,
        updated_at=rfc3339(own.updated_at) if own else None,
    )


def _shown(purpose: Purpose, language: Language, own: StoredTemplate | None) -> MailTemplate:
    template = template_of(own) if own else shipped(language, purpose)
    return MailTemplate(
        purpose=purpose,
        language=language,
        subject=template.subject,
        text="\n\n".join(template.text),
        button=template.button,
        html=template.html,
        variables=sorted(variables_of(purpose)),
        is_custom=own is not None,
        updated_at=rfc3339(own.updated_at) if own else None,
    )
