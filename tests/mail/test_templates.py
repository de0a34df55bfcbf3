"""An app's own texts of mails: what is accepted, what recipients get, and what is shipped again."""

from typing import Any

import pytest

from tests.console import owner_of
from tests.mail.world import call, mails, post, sign_up
from tests.support import App, assert_error

RESET = "/mail-templates/reset_password/en"
VERIFY = "/mail-templates/verify_email/de"
OWN = {
    "subject": "Willkommen bei {{app.name}}",
    "text": "Hallo & willkommen,\nbestätige {{app.name}}:\n\n{{link}}\n\n \n{{code}}\n\nGültig {{expires}}.",
    "button": "Ja <b>",
}


async def test_all_purposes_are_shipped_in_seven_languages(app: App):
    listed = (await call(app, "GET", "/mail-templates"))["templates"]
    assert {one["language"] for one in listed} == {"en", "ko", "ja", "zh", "de", "fr", "es"}
    assert "test" not in {one["purpose"] for one in listed}
    assert not any(one["is_custom"] for one in listed)
    for one in listed:
        path = f"/mail-templates/{one['purpose']}/{one['language']}"
        shown = await call(app, "GET", path)
        # What is shipped may be saved as it is, and has every variable.
        body = {name: shown[name] for name in ("subject", "text", "button")}
        preview = await call(app, "POST", f"{path}/preview", json=body)
        assert "{{" not in preview["subject"] + preview["text"] + preview["html"]
        for name in shown["variables"]:
            assert f"{{{{{name}}}}}" in shown["subject"] + shown["text"], (path, name)


async def test_recipients_get_the_apps_own_text_until_the_shipped_one_is_restored(app: App, other_app: App):
    saved = await call(app, "PUT", VERIFY, json=OWN)
    assert saved["is_custom"]
    assert saved == await call(app, "GET", VERIFY)
    await sign_up(app, "ada", "ada@example.com", language="de")
    (mail,) = await mails(app, 1)
    (name,) = {one["name"] for one in (await _apps(app)) if one["app_id"] == app.app_id}
    assert mail["subject"] == f"Willkommen bei {name}"
    paragraphs = [f"Hallo & willkommen,\nbestätige {name}:", mail["link"], mail["code"], "Gültig 24 Stunden."]
    assert mail["text"] == "\n\n".join(paragraphs) + "\n"
    assert "Hallo &amp; willkommen,<br>" in mail["html"]
    assert f'href="{mail["link"]}"' in mail["html"]
    assert ">Ja &lt;b&gt;</a>" in mail["html"]
    assert mail["button"] == "Ja <b>"
    # Neither another language's text nor another app's has changed.
    assert not (await call(app, "GET", "/mail-templates/verify_email/en"))["is_custom"]
    assert not (await call(other_app, "GET", VERIFY))["is_custom"]
    await call(app, "DELETE", VERIFY)
    assert (await call(app, "GET", VERIFY))["subject"].startswith("Bestätige")


async def _apps(app: App) -> list[dict[str, Any]]:
    async with owner_of(app).client() as client:
        return (await client.get("/apps", params={"limit": 100})).json()["data"]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("subject", "Two\nlines"),
        ("subject", "{{link}}"),
        ("subject", " "),
        ("text", "No link at all."),
        ("text", "Here: {{link}}"),
        ("text", "{{link}}\n\n{{nickname}}"),
        ("text", "{{link}}\n\n{{code}}"),
        ("text", "{{link}}\n\n{{app.name"),
        ("text", "{{link}}\n\n\x07"),
        ("text", "{{link}}\n\n" + "x" * 16_000),
        ("button", "{{link}}"),
        ("button", "a\nb"),
    ],
)
async def test_a_text_that_gives_no_whole_mail_is_refused(app: App, field: str, value: str):
    body = {"subject": "New", "text": "{{link}}", field: value}
    async with owner_of(app).client(app) as client:
        for answer in (await client.put(RESET, json=body), await client.post(f"{RESET}/preview", json=body)):
            error = assert_error(answer, 400, "VALIDATION_FAILED")
            assert error["details"][0]["field"] == field


async def test_purposes_and_languages_that_are_none_are_not_found(app: App):
    async with owner_of(app).client(app) as client:
        for path in ("reset_password/xx", "test/en", "none/en"):
            assert_error(await client.get(f"/mail-templates/{path}"), 404, "MAIL_TEMPLATE_NOT_FOUND")


HTML = '<table><tr><td>{{app.name}}</td></tr></table><a class="b" href="{{link}}">Go</a><b>{{code}}</b>{{code_expires}}'


async def test_html_of_the_app_has_escaped_values_and_is_left_out_where_a_value_is(app: App):
    saved = await call(app, "PUT", VERIFY, json={**OWN, "html": HTML})
    assert saved["html"] == HTML == (await call(app, "GET", VERIFY))["html"]
    await call(app, "PATCH", "", json={"name": "<Club> & {{link}}"})
    await sign_up(app, "ada", "ada@example.com", language="de")
    (mail,) = await mails(app, 1)
    assert mail["html"].startswith("<table><tr><td>&lt;Club&gt; &amp; {{link}}</td>")
    assert f'href="{mail["link"]}"' in mail["html"]
    assert f"<b>{mail['code']}</b>10 Minuten" in mail["html"]
    assert "bestätige" in mail["text"]
    async with owner_of(app).client(app) as client:
        for html in ("<b>{{code}}</b>", HTML + "{{nickname}}", HTML + "{{", "x" * 64_001):
            assert_error(await client.put(VERIFY, json={**OWN, "html": html}), 400, "VALIDATION_FAILED")
    # A sign-in by link alone has no code.
    await call(app, "PATCH", "/account-settings", json={"methods": {"email_link": True}})
    text = {"subject": "Hi", "text": "{{link}}\n\n{{code}}", "html": HTML}
    await call(app, "PUT", "/mail-templates/sign_in/en", json=text)
    await post(app, "/email-sign-in", {"email": "bob@example.com"})
    (mail,) = await mails(app, 1, purpose="sign_in")
    assert "<table>" not in mail["html"]
    assert mail["link"] in mail["html"]
