"""The screens of an app in use in long words and in Korean, at three widths and at 200 %: no word is cut off."""

import pytest

from tests.chromium import keep_picture
from tests.console.conftest import Opening, sign_in
from tests.console.furnished import Furnished
from tests.console.in_use import BETWEEN, CLIPPED, DOUBLED, NARROW, WIDE, nothing, screens_of, stretch
from tests.support import App, Server


# Beside these, `test_in_use` has every screen in the longer words.
@pytest.mark.whole
@pytest.mark.parametrize("words", ["stretched", "korean"])
async def test_words_of_any_length_have_room(
    server: Server, in_use: tuple[App, Furnished], visit: Opening, words: str
) -> None:
    app, content = in_use
    found: dict[str, list[str]] = {}
    async with visit("about:blank", locale="ko-KR" if words == "korean" else "en-US") as page:
        if words == "stretched":
            await stretch(page)
        await sign_in(page, server, "/profile")
        async for name in screens_of(page, app, content, of="anybody"):
            for size, device in ((WIDE, ""), (BETWEEN, "-between"), (NARROW, "-phone"), (DOUBLED, "-doubled")):
                await page.set_viewport_size(size)
                found[name + device] = await page.evaluate(CLIPPED)
                await keep_picture(page, f"console-in-use-{name}-{words}{device}")
            # What is out of view loads when it comes into view.
            await page.set_viewport_size(WIDE)
    nothing(found)
