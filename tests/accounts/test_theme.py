"""The account pages look as the app's theme says, and can be read whatever it says."""

import asyncio
import hashlib
import io
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from pilotis.apps.types import AccountTheme
from pilotis.http.reference.page import asset
from pilotis.http.reference.theme import style_of
from pilotis.kit.account_settings import Theme
from pilotis.kit.colours import DARK_PAGE, LIGHT_PAGE, contrast, luminance, parse, readable_on, text_of
from pilotis.kit.languages import LANGUAGES
from pilotis.kit.logos import check_logo
from tests.console import owner_of
from tests.mail.world import call
from tests.oauth.test_logos import SCRIPT, picture
from tests.support import App, assert_error

COLOURS = st.tuples(*[st.integers(0, 255)] * 3).map(lambda rgb: "#" + "".join(f"{one:02x}" for one in rgb))
NOTHING = {"accent": None, "background": None, "radius": None, "font": None, "mode": "auto", "texts": {}}


async def change(app: App, **theme: object) -> httpx.Response:
    async with owner_of(app).client(app) as client:
        return await client.patch("/account-settings", json={"theme": theme})


async def page(app: App, name: str = "sign-in", **query: str) -> httpx.Response:
    async with app.client() as client:
        return await client.get(f"/account/{app.app_id}/{name}", params=query)


async def put_logo(app: App, data: bytes) -> httpx.Response:
    async with owner_of(app).client(app) as client:
        return await client.put("/account-settings/logo", content=data)


def rules_of(style: str) -> list[dict[str, str]]:
    """The declarations of each `:root` of a style sheet."""
    return [
        dict(part.split(":") for part in rule.partition("}")[0].strip("{").split(";"))
        for rule in style.split(":root")[1:]
    ]


def test_the_pages_that_colours_are_measured_on_are_those_of_the_style_sheet():
    style = asset("style.css")
    light, dark = style.partition("@media (prefers-color-scheme: dark)")[::2]
    assert f"--sunken: {text_of(LIGHT_PAGE)}" in light
    assert f"--sunken: {text_of(DARK_PAGE)}" in dark


@given(COLOURS)
def test_every_colour_can_be_read_on_both_pages(colour: str):
    for ground in (LIGHT_PAGE, DARK_PAGE):
        assert contrast(readable_on(ground, parse(colour)), ground) >= 4.5
    rules = rules_of(style_of(Theme(accent=colour)))
    assert len(rules) == 2
    for values in rules:
        assert contrast(parse(values["--accent"]), parse(values["--on-accent"])) >= 4.5


@given(COLOURS)
def test_what_stands_on_any_background_can_be_read_and_dark_pages_are_dark(colour: str):
    light, dark = rules_of(style_of(Theme(background=colour)))
    for values in (light, dark):
        assert contrast(parse(values["--ground"]), parse(values["--on-ground"])) >= 4.5
    assert light["--ground"] == colour
    assert luminance(parse(dark["--ground"])) <= 0.03
    assert rules_of(style_of(Theme(background=colour, mode="dark")))[1]["--ground"] == colour


def test_what_can_be_read_stays_and_nothing_is_nothing():
    assert readable_on(LIGHT_PAGE, parse("#1c6a5b")) == parse("#1c6a5b")
    assert style_of(Theme()) == ""
    assert msgspec_dict(AccountTheme()) == NOTHING


def msgspec_dict(theme: AccountTheme) -> dict[str, Any]:
    return {name: getattr(theme, name) for name in theme.__struct_fields__}


async def test_the_pages_have_it(app: App):
    theme = {"accent": "#7a1fa2", "background": "#f4e9d8", "radius": 12, "font": "serif", "mode": "auto", "texts": {}}
    settings = await call(app, "PATCH", "/account-settings", json={"theme": theme})
    assert settings["theme"] == theme
    text = (await page(app)).text
    for part in ("--accent:#7a1fa2", "--ground:#f4e9d8", "--r1:12px", "font-family:Georgia"):
        assert part in text
    async with app.client() as client:
        public = (await client.get("/v1/public/account-settings")).json()
    assert public["theme"] == theme
    assert (await change(app)).json()["theme"] == NOTHING
    assert "#7a1fa2" not in (await page(app)).text


@pytest.mark.parametrize(("mode", "scheme"), [("auto", "light dark"), ("light", "light"), ("dark", "dark")])
async def test_the_mode_decides_whether_pages_are_dark(app: App, mode: str, scheme: str):
    assert (await change(app, mode=mode, background="#f4e9d8")).status_code == 200
    text = (await page(app)).text
    assert f'<meta name="color-scheme" content="{scheme}">' in text
    conditions = {"auto": "(prefers-color-scheme: dark)", "light": "not all", "dark": "all"}
    for name, condition in conditions.items():
        assert (f"@media {condition}" in text) == (name == mode), name


async def test_an_accent_that_cannot_be_read_is_refused_with_the_nearest_that_can(app: App):
    error = assert_error(await change(app, accent="#ffd400"), 400, "LOW_CONTRAST")
    assert error["details"][0]["field"] == "theme.accent"
    nearest = error["nearest"]
    assert nearest in error["message"]
    assert 4.5 <= contrast(parse(nearest), LIGHT_PAGE) < 4.7
    assert (await change(app, accent=nearest)).status_code == 200
    # On a dark page it is the other way round.
    assert (await change(app, accent="#ffd400", mode="dark")).status_code == 200
    error = assert_error(await change(app, accent="#14213d", mode="dark"), 400, "LOW_CONTRAST")
    assert contrast(parse(error["nearest"]), DARK_PAGE) >= 4.5


async def test_the_app_speaks_in_five_places_of_a_language(app: App):
    own = {
        "sign_in_title": "Willkommen bei {app}",
        "sign_in_text": "Erste Zeile\n<b>zweite</b> Zeile",
        "sign_up_title": "Werde Mitglied",
        "sign_up_text": "Kostenlos.",
        "footer": "Muster GmbH · Weg 1",
    }
    settings = (await change(app, texts={"de": own, "en": {}})).json()
    assert settings["theme"]["texts"] == {"de": own}
    german, english = (await page(app, lang="de")).text, (await page(app, lang="en")).text
    assert ">Willkommen bei " in german
    assert "{app}" not in german.partition("<script>")[0]
    assert "Erste Zeile\n&lt;b&gt;zweite&lt;/b&gt; Zeile" in german
    assert "<b>" not in german
    for text in (
        "Werde Mitglied",
        "Kostenlos.",
        '<footer class="foot own" data-own="footer">Muster GmbH · Weg 1</footer>',
    ):
        assert text in german
    assert "Muster" not in english
    for language in LANGUAGES:
        shown = (await page(app, lang=language)).text
        assert ('<p class="own" data-own="sign_in_text"></p>' in shown) == (language != "de")


@pytest.mark.share(0.34)
@pytest.mark.parametrize(
    "theme",
    [
        {"accent": "red"},
        {"accent": "#FFF}body{display:none"},
        {"background": "url(https://evil.example)"},
        {"radius": 17},
        {"radius": -1},
        {"font": "Comic"},
        {"mode": "night"},
        {"css": "*{}"},
        {"logo": "https://evil.example/logo.png"},
        {"texts": {"xx": {"footer": "a"}}},
        {"texts": {"en": {"html": "a"}}},
        {"texts": {"en": {"footer": ""}}},
        {"texts": {"en": {"footer": "  "}}},
        {"texts": {"en": {"footer": "a" * 501}}},
        {"texts": {"en": {"sign_in_title": "a" * 101}}},
        {"texts": {"en": {"sign_in_title": "two\nlines"}}},
        {"texts": {"en": {"footer": "\u202efdp.exe"}}},
    ],
)
async def test_no_style_of_strangers_is_taken(app: App, theme: dict[str, object]):
    assert_error(await change(app, **theme), 400, "VALIDATION_FAILED")


async def test_a_logo_is_encoded_again_and_shown_on_the_pages(app: App):
    assert "img-src data:;" in (await page(app)).headers["content-security-policy"]
    answer = await put_logo(app, picture(size=(1200, 300)) + SCRIPT)
    assert answer.status_code == 200, answer.text
    url = answer.json()["logo_url"]
    assert url.startswith(f"{app.server.url}/account/{app.app_id}/logo?v=")
    # A theme does not replace it, and it is no part of one.
    assert (await change(app, radius=8)).json()["logo_url"] == url
    shown = await page(app)
    assert f'<img class="logo" src="{url.removeprefix(app.server.url)}" alt="">' in shown.text
    assert "img-src data: 'self';" in shown.headers["content-security-policy"]
    async with app.client() as client:
        found = await client.get(url)
        assert (await client.get("/v1/public/account-settings")).json()["logo_url"] == url
    assert found.headers["content-type"] == "image/webp"
    assert found.headers["content-security-policy"] == "default-src 'none'; sandbox"
    assert SCRIPT not in found.content
    with Image.open(io.BytesIO(found.content)) as image:
        assert (image.format, image.size) == ("WEBP", (512, 128))
    second = (await put_logo(app, picture(size=(64, 64)))).json()["logo_url"]
    assert second != url
    async with owner_of(app).client(app) as client:
        assert (await client.delete("/account-settings/logo")).json() == {"message": "Logo deleted.", "id": app.app_id}
        assert_error(await client.delete("/account-settings/logo"), 404, "ACCOUNT_LOGO_NOT_FOUND")
        assert (await client.get("/account-settings")).json()["logo_url"] is None
    assert '<img class="logo"' not in (await page(app)).text
    assert_error(await page(app, "logo"), 404, "ACCOUNT_LOGO_NOT_FOUND")


@pytest.mark.parametrize("data", [b"", b"<svg xmlns='http://www.w3.org/2000/svg'/>", picture()[:60]])
async def test_what_is_no_image_is_no_logo(app: App, data: bytes):
    assert_error(await put_logo(app, data), 400, "INVALID_LOGO")
    assert_error(await page(app, "logo"), 404, "ACCOUNT_LOGO_NOT_FOUND")


async def test_a_preview_shows_a_theme_that_is_not_stored_in_a_frame_of_the_server_alone(app: App):
    shown = await page(app, "preview", accent="#7a1fa2", background="#f4e9d8", radius="16", mode="dark", lang="ko")
    assert shown.status_code == 200
    for part in ("--ground:#f4e9d8", "--r1:16px", '<html lang="ko">', '"page":"preview"', 'content="dark"'):
        assert part in shown.text
    assert "frame-ancestors 'self'" in shown.headers["content-security-policy"]
    assert "frame-ancestors 'none'" in (await page(app)).headers["content-security-policy"]
    # Which of the two pages of a theme it is, is asked for.
    for shows, condition in (("light", "not all"), ("dark", "all")):
        text = (await page(app, "preview", background="#f4e9d8", shows=shows)).text
        assert f"@media {condition}{{:root{{--ground:" in text
        assert "--ground:#f4e9d8" in text
    for wrong in ({"accent": "red"}, {"radius": "17"}, {"lang": "xx"}, {"footer": "Call us"}, {"section": "account"}):
        assert_error(await page(app, "preview", **wrong), 400, "VALIDATION_FAILED")


def test_an_archive_brings_no_other_bytes_as_a_logo():
    check_logo("\\x" + picture("WEBP").hex())
    for data in (b"", SCRIPT, picture("PNG"), picture("WEBP") + bytes(1_000_000)):
        with pytest.raises(ValueError, match="none of Pilotis"):
            check_logo("\\x" + data.hex())


async def test_of_logos_at_once_one_is_stored_with_its_version(app: App):
    sides = (16, 32, 48)
    answers = await asyncio.gather(*(put_logo(app, picture(size=(side, side))) for side in sides))
    assert {answer.status_code for answer in answers} == {200}
    async with owner_of(app).client(app) as client:
        url = (await client.get("/account-settings")).json()["logo_url"]
    async with app.client() as client:
        image = (await client.get(url)).content
    assert url.endswith(f"?v={hashlib.sha256(image).hexdigest()[:16]}")
