"""The account pages take the app's colour, and can be read whatever it is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilotis.account_pages.theme import contrast, parse, readable_on, style_of
from pilotis.kit.account_settings import Theme
from tests.console import owner_of
from tests.mail.world import call
from tests.support import App, assert_error

COLOURS = st.tuples(*[st.integers(0, 255)] * 3).map(lambda rgb: "#" + "".join(f"{one:02x}" for one in rgb))
# The darkest ground of the light page and the lightest of the dark one.
PAGES = parse("#f3f1ec"), parse("#222220")


@given(COLOURS)
def test_every_colour_can_be_read_on_both_pages(colour: str):
    for page in PAGES:
        assert contrast(readable_on(page, parse(colour)), page) >= 4.5
    style = style_of(Theme(accent=colour))
    for rule in style.split(":root")[1:]:
        values = dict(part.split(":") for part in rule.partition("}")[0].strip("{").split(";"))
        assert contrast(parse(values["--accent"]), parse(values["--on-accent"])) >= 4.5


def test_what_can_be_read_stays_and_nothing_is_nothing():
    assert readable_on(PAGES[0], parse("#1c6a5b")) == parse("#1c6a5b")
    assert style_of(Theme()) == ""


async def test_the_pages_have_it(app: App):
    theme = {"accent": "#7a1fa2", "radius": 12, "font": "serif"}
    settings = await call(app, "PATCH", "/account-settings", json={"theme": theme})
    assert settings["theme"] == theme
    async with app.client() as client:
        answer = await client.get(f"/account/{app.app_id}/sign-in")
        assert "--accent:#7a1fa2" in answer.text
        assert "--r1:12px" in answer.text
        assert (await client.get("/v1/public/account-settings")).json()["theme"] == theme
    await call(app, "PATCH", "/account-settings", json={"theme": {}})
    async with app.client() as client:
        assert "#7a1fa2" not in (await client.get(f"/account/{app.app_id}/sign-in")).text


@pytest.mark.parametrize(
    "theme",
    [{"accent": "red"}, {"accent": "#FFF}body{display:none"}, {"radius": 17}, {"font": "Comic"}, {"css": "*{}"}],
)
async def test_no_style_of_strangers_is_taken(app: App, theme: dict[str, object]):
    async with owner_of(app).client(app) as client:
        assert_error(await client.patch("/account-settings", json={"theme": theme}), 400, "VALIDATION_FAILED")
