"""Composes mails from templates: the app's own, or those in `languages/`, one file for each language. Pure.

A template is a subject and paragraphs, with variables such as `{{app.name}}`. A paragraph that is `{{link}}` alone
becomes a button in HTML, one that is `{{code}}` alone is shown large. All values are escaped there.
"""

from __future__ import annotations

import functools
import re
import tomllib
from datetime import timedelta
from html import escape
from importlib.resources import files
from typing import Any, NamedTuple

import msgspec

from pilotis.kit.languages import Language
from pilotis.mail.types import Purpose

_VARIABLE = re.compile(r"\{\{([a-z_.]+)\}\}")
_PAGE = """<!doctype html>
<html lang="{language}">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{subject}</title></head>
<body style="margin:0;padding:32px 16px;background:#f4f4f2;color:#1d1d1b;font:16px/1.5 system-ui,sans-serif">
<div style="max-width:480px;margin:0 auto;padding:32px;background:#fff;border-radius:8px">
{content}
</div>
</body>
</html>
"""
_PARAGRAPH = '<p style="margin:0 0 16px">{}</p>'
_BUTTON = (
    '<p style="margin:0 0 24px"><a href="{0}" style="display:inline-block;padding:12px 20px;background:#1d1d1b;'
    'color:#fff;text-decoration:none;border-radius:6px">{1}</a></p>'
)
_CODE = '<p style="margin:0 0 24px;font:600 28px/1.2 ui-monospace,monospace;letter-spacing:4px">{}</p>'


class Composed(NamedTuple):
    """A mail's subject, its text and the same as HTML; `button` is the label of its link, None without one."""

    subject: str
    text: str
    html: str
    button: str | None


class Durations(msgspec.Struct, frozen=True):
    """How a language says durations; `{n}` is the number."""

    minutes: str
    hour: str
    hours: str
    days: str


class Template(msgspec.Struct, frozen=True):
    """A mail of one purpose in one language."""

    subject: str
    text: list[str]
    button: str = ""
    html: str | None = None
    """The app's own, with the same variables; it is not used for a mail that lacks one of them."""


def shipped(language: Language, purpose: Purpose) -> Template:
    """Return the template of a purpose that Pilotis has in a language."""
    return _load(language)[1][purpose]


@functools.cache
def variables_of(purpose: Purpose) -> frozenset[str]:
    """Return the names of the variables that a mail of a purpose may have."""
    template = shipped("en", purpose)
    return frozenset(name for text in (template.subject, *template.text) for name in _VARIABLE.findall(text))


def compose(
    language: Language, purpose: Purpose, values: dict[str, str | timedelta], own: Template | None = None
) -> Composed:
    """Return a mail, by the app's `own` template if it has one; durations are written in the mail's language.

    Paragraphs about a link or a code that the mail does not have are left out.
    """
    durations = _load(language)[0]
    template = own or shipped(language, purpose)
    texts = {name: _duration(durations, one) if isinstance(one, timedelta) else one for name, one in values.items()}
    subject = _filled(template.subject, texts)
    sources = [one for one in template.text if texts.keys() >= set(_VARIABLE.findall(one))]
    paragraphs = [_filled(paragraph, texts) for paragraph in sources]
    if template.html is not None and texts.keys() >= set(_VARIABLE.findall(template.html)):
        html = _filled(template.html, {name: escape(text) for name, text in texts.items()})
    else:
        made = (_paragraph(template, source, text) for source, text in zip(sources, paragraphs, strict=True))
        html = page_of(language, subject, "\n".join(made))
    return Composed(subject, "\n\n".join(paragraphs) + "\n", html, template.button or None)


def page_of(language: str, subject: str, content: str) -> str:
    """Return the HTML of a mail with some content, which is HTML."""
    return _PAGE.format(language=language, subject=escape(subject), content=content)


def plain_html(language: str, subject: str, text: str) -> str:
    """Return the HTML of a mail that is a text of paragraphs."""
    paragraphs = [one for one in text.split("\n\n") if one.strip()]
    made = (_PARAGRAPH.format(escape(one.strip()).replace("\n", "<br>\n")) for one in paragraphs)
    return page_of(language, subject, "\n".join(made))


def _paragraph(template: Template, source: str, text: str) -> str:
    if source == "{{link}}":
        return _BUTTON.format(escape(text), escape(template.button))
    return (_CODE if source == "{{code}}" else _PARAGRAPH).format(escape(text).replace("\n", "<br>\n"))


def _filled(template: str, values: dict[str, str]) -> str:
    # In one pass, so that a value is never read as a template.
    return _VARIABLE.sub(lambda found: values[found[1]], template)


def _duration(durations: Durations, length: timedelta) -> str:
    minutes = round(length.total_seconds() / 60)
    if minutes < 60:
        return durations.minutes.format(n=minutes)
    if minutes == 60:
        return durations.hour
    hours = round(minutes / 60)
    return durations.hours.format(n=hours) if hours < 48 else durations.days.format(n=round(hours / 24))


@functools.cache
def _load(language: Language) -> tuple[Durations, dict[str, Template]]:
    text = files("pilotis.mail").joinpath("languages", f"{language}.toml").read_text("utf-8")
    data: dict[str, Any] = tomllib.loads(text)
    durations = msgspec.convert(data.pop("durations"), Durations)
    return durations, msgspec.convert(data, dict[str, Template])
