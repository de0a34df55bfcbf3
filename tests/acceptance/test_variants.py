"""Variants of images: sizes, formats, colours, and what stays as it is for the files themselves."""

import io
import struct
from typing import Any

import pytest
from PIL import Image, ImageCms, ImageOps

from tests.acceptance.test_files import put_at, storage, upload
from tests.files.pictures import (
    BLUE,
    GREEN,
    RED,
    TYPES,
    WHITE,
    bands,
    encoded,
    is_near,
    kept,
    noise,
    opened,
    picture,
    quarters,
    uploaded,
)
from tests.support import App, assert_error, plain_client

pytestmark = pytest.mark.share(0.3)


@pytest.mark.parametrize(
    ("query", "size"),
    [
        ({"width": 100}, (100, 50)),
        ({"height": 100}, (200, 100)),
        ({"width": 100, "height": 100}, (100, 100)),
        ({"width": 100, "height": 100, "fit": "cover"}, (100, 100)),
        ({"width": 100, "height": 100, "fit": "contain"}, (100, 50)),
        ({"width": 300, "height": 20, "fit": "contain"}, (40, 20)),
        ({"width": 100, "height": 100, "fit": "fill"}, (100, 100)),
        ({"width": 1, "height": 1}, (1, 1)),
        ({"width": 1}, (1, 1)),
        # Nothing is enlarged; what has a ratio keeps it.
        ({"width": 4096}, (400, 200)),
        ({"width": 800, "height": 800}, (200, 200)),
        ({"width": 800, "height": 100}, (400, 50)),
        ({"width": 800, "height": 800, "fit": "contain"}, (400, 200)),
        ({"width": 800, "height": 800, "fit": "fill"}, (200, 200)),
        ({"quality": 50}, (400, 200)),
    ],
)
async def test_sizes(app: App, query: dict[str, Any], size: tuple[int, int]):
    base = await storage(app)
    async with app.client() as client:
        url = await picture(client, base, bands(400, 200, RED, BLUE), "JPEG", quality=95)
        image = opened(await client.get(url, params=query))
    assert (image.size, image.format) == (size, "JPEG")
    if size[0] > 10:
        assert is_near(image.getpixel((1, size[1] // 2)), RED)
        assert is_near(image.getpixel((size[0] - 2, size[1] // 2)), BLUE)


async def test_cover_cuts_off_both_sides_alike_and_fill_stretches(app: App):
    base = await storage(app)
    async with app.client() as client:
        url = await picture(client, base, bands(300, 100, RED, GREEN, BLUE))
        cut = opened(await client.get(url, params={"width": 50, "height": 50}))
        assert all(is_near(cut.getpixel((x, 25)), GREEN) for x in (2, 25, 47))
        stretched = opened(await client.get(url, params={"width": 60, "height": 60, "fit": "fill"}))
        assert all(is_near(stretched.getpixel((x, 25)), colour) for x, colour in ((10, RED), (30, GREEN), (50, BLUE)))
        upright = await picture(client, base, bands(300, 100, RED, GREEN, BLUE).rotate(90, expand=True), "WEBP")
        cut = opened(await client.get(upright, params={"width": 50, "height": 50, "format": "png"}))
        assert all(is_near(cut.getpixel((25, y)), GREEN) for y in (2, 25, 47))


@pytest.mark.parametrize("format_", ["PNG", "JPEG"])
async def test_sizes_that_do_not_divide(app: App, format_: str):
    """Rounding put the box of this one a hair's breadth outside of the image."""
    base = await storage(app)
    async with app.client() as client:
        url = await picture(client, base, bands(1717, 497, RED, BLUE), format_)
        for width, height in ((1484, 313), (211, 61), (73, 21)):
            image = opened(await client.get(url, params={"width": width, "height": height}))
            assert image.size == (width, height)


@pytest.mark.parametrize("source", ["PNG", "JPEG", "GIF", "WEBP", "AVIF", "BMP"])
@pytest.mark.parametrize("target", [None, "jpeg", "png", "webp", "avif"])
async def test_formats(app: App, source: str, target: str | None):
    base = await storage(app)
    async with app.client() as client:
        url = await picture(client, base, quarters(64, 48), source)
        answer = await client.get(url, params={"width": 32} | ({"format": target} if target else {}))
    image = opened(answer)
    written = target.upper() if target else {"GIF": "PNG", "BMP": "PNG"}.get(source, source)
    assert (image.format, image.size) == (written, (32, 24))
    image = image.convert("RGB")
    corners = [image.getpixel(at) for at in ((4, 4), (27, 4), (4, 19), (27, 19))]
    assert all(map(is_near, corners, (RED, GREEN, BLUE, WHITE))), corners
    name = url.rpartition("/")[2]
    if written != source:
        name = f"{name.partition('.')[0]}.{written.lower()}"
    assert answer.headers["content-disposition"] == f'inline; filename="{name}"'


async def test_an_auto_format_is_what_the_client_takes(app: App):
    base = await storage(app)
    async with app.client() as client:
        url = await picture(client, base, noise(64, 48))
        for accept, format_ in (("image/avif,image/webp,*/*;q=0.8", "WEBP"), ("*/*", "PNG"), ("image/png", "PNG")):
            answer = await client.get(url, params={"format": "auto", "width": 32}, headers={"Accept": accept})
            assert (opened(answer).format, answer.headers["vary"]) == (format_, "accept")
        assert "vary" not in (await client.get(url, params={"width": 32})).headers
        # The second and the third are one, and so is what needs no negotiation.
        assert await kept(app) == 2


async def test_transparency_stays_where_the_format_has_it(app: App):
    base = await storage(app)
    image = bands(100, 50, (*RED, 255), (*BLUE, 0), mode="RGBA")
    grey = Image.merge("LA", [image.getchannel("R"), image.getchannel("A")])
    async with app.client() as client:
        for source, format_ in ((image, "PNG"), (image, "WEBP"), (image, "AVIF"), (grey, "PNG")):
            url = await picture(client, base, source, format_, **({} if format_ == "PNG" else {"quality": 100}))
            for target in ("png", "webp", "avif"):
                made = opened(await client.get(url, params={"width": 50, "format": target})).convert("RGBA")
                assert made.getpixel((5, 10))[3] == 255
                assert made.getpixel((45, 10))[3] < 8
            flat = opened(await client.get(url, params={"width": 50, "format": "jpeg"}))
            assert flat.mode == "RGB"
            assert is_near(flat.getpixel((45, 10)), WHITE)
        assert is_near(made.getpixel((5, 10))[:3], WHITE)
        palette = bands(100, 50, (1,), (2,), mode="P")
        palette.putpalette([0, 0, 0, *RED, *BLUE])
        for format_ in ("PNG", "GIF"):
            url = await picture(client, base, palette, format_, transparency=2)
            made = opened(await client.get(url, params={"width": 50, "format": "png"})).convert("RGBA")
            assert (made.getpixel((5, 10)), made.getpixel((45, 10))[3]) == ((*RED, 255), 0)


async def test_the_quality_counts_where_there_is_one(app: App):
    base = await storage(app)
    async with app.client() as client:
        url = await picture(client, base, noise(128, 128), "JPEG", quality=95)
        for format_ in ("jpeg", "webp", "avif"):
            sizes = [
                len((await client.get(url, params={"format": format_, "quality": quality})).content)
                for quality in (5, 50, 100)
            ]
            assert sizes == sorted(set(sizes)), (format_, sizes)
        before = await kept(app)
        first = await client.get(url, params={"format": "png", "quality": 5})
        assert first.content == (await client.get(url, params={"format": "png"})).content
        assert await kept(app) == before + 1


@pytest.mark.parametrize("format_", ["JPEG", "PNG", "WEBP"])
@pytest.mark.parametrize("orientation", range(1, 9))
async def test_the_orientation_is_applied(app: App, format_: str, orientation: int):
    base = await storage(app)
    exif = Image.Exif()
    exif[0x0112] = orientation
    data = encoded(quarters(80, 40), format_, exif=exif)
    seen = ImageOps.exif_transpose(Image.open(io.BytesIO(data))).convert("RGB")
    async with app.client() as client:
        url = await uploaded(client, base, data, TYPES[format_])
        made = opened(await client.get(url, params={"width": seen.width // 2, "format": "png"}))
        assert made.size == (seen.width // 2, seen.height // 2)
        assert 0x0112 not in made.getexif()
        for x, y in ((0.2, 0.2), (0.8, 0.2), (0.2, 0.8), (0.8, 0.8)):
            wanted = seen.getpixel((int(x * seen.width), int(y * seen.height)))
            assert is_near(made.getpixel((int(x * made.width), int(y * made.height))), wanted), (x, y)
        tall = opened(await client.get(url, params={"width": 10, "height": 40, "format": "png"}))
        assert tall.size == (10, 40)


@pytest.mark.parametrize("format_", ["JPEG", "PNG", "WEBP", "AVIF"])
async def test_metadata_does_not_go_along(app: App, format_: str):
    base = await storage(app)
    exif = Image.Exif()
    exif[0x010E] = "a secret place"
    exif.get_ifd(0x8825)[1] = "N"
    options: dict[str, Any] = {"exif": exif, "xmp": b"<x>a secret place</x>", "icc_profile": shifted_profile()}
    if format_ == "JPEG":
        options["comment"] = "a secret place"
    async with app.client() as client:
        url = await picture(client, base, quarters(64, 48), format_, **options)
        assert b"a secret place" in (await client.get(url)).content
        for target in ("jpeg", "png", "webp", "avif"):
            answer = await client.get(url, params={"format": target})
            assert b"secret" not in answer.content
            assert not opened(answer).getexif()
            assert "icc_profile" not in opened(answer).info


def shifted_profile() -> bytes:
    """A colour profile with the primaries for red and blue exchanged."""
    profile = bytearray(ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes())
    for at in range(132, 132 + 12 * struct.unpack(">I", profile[128:132])[0], 12):
        name = bytes(profile[at : at + 4])
        profile[at : at + 4] = {b"rXYZ": b"bXYZ", b"bXYZ": b"rXYZ"}.get(name, name)
    return bytes(profile)


@pytest.mark.parametrize("format_", ["JPEG", "PNG", "WEBP"])
async def test_colours_are_converted_by_their_profile(app: App, format_: str):
    base = await storage(app)
    plain, shifted, broken = bands(64, 48, RED), shifted_profile(), b"not a profile" * 20
    async with app.client() as client:
        for profile, colour in ((None, RED), (shifted, BLUE), (broken, RED), (shifted[:300], RED)):
            url = await picture(client, base, plain, format_, **({"icc_profile": profile} if profile else {}))
            made = opened(await client.get(url, params={"width": 32, "format": "png"}))
            assert is_near(made.convert("RGB").getpixel((16, 16)), colour, 40)
        if format_ != "JPEG":
            url = await picture(
                client, base, bands(64, 48, (*RED, 255), (*RED, 0), mode="RGBA"), format_, icc_profile=shifted
            )
            made = opened(await client.get(url, params={"width": 32, "format": "png"}))
            assert is_near(made.getpixel((4, 16)), (*BLUE, 255), 40)
            assert made.getpixel((28, 16))[3] == 0


async def test_pictures_that_are_not_plain_rgb(app: App):
    base = await storage(app)
    deep = Image.new("I;16", (64, 48), 0x8000)
    shown = [
        (Image.new("CMYK", (64, 48), (0, 255, 255, 0)), "JPEG", RED),
        (deep, "PNG", (128, 128, 128)),
        (Image.new("L", (64, 48), 200), "JPEG", (200, 200, 200)),
        (Image.new("1", (64, 48), 1), "PNG", WHITE),
    ]
    async with app.client() as client:
        for image, format_, colour in shown:
            url = await picture(client, base, image, format_)
            for target in ("jpeg", "png", "webp", "avif"):
                made = opened(await client.get(url, params={"width": 32, "format": target})).convert("RGB")
                assert is_near(made.getpixel((16, 16)), colour, 10), (image.mode, target)


@pytest.mark.parametrize("format_", ["GIF", "WEBP", "PNG"])
async def test_of_what_moves_the_first_picture_is_taken(app: App, format_: str):
    base = await storage(app)
    pictures = [Image.new("RGB", (64, 48), colour) for colour in (RED, GREEN, BLUE)]
    async with app.client() as client:
        url = await picture(client, base, pictures[0], format_, save_all=True, append_images=pictures[1:])
        made = opened(await client.get(url, params={"width": 32, "format": "png"}))
    assert is_near(made.convert("RGB").getpixel((16, 16)), RED)
    assert getattr(made, "n_frames", 1) == 1


async def test_without_a_parameter_a_file_stays_as_it_is(app: App):
    base = await storage(app)
    data = encoded(quarters(64, 48), "JPEG", comment="kept")
    async with app.client() as client:
        url = await uploaded(client, base, data, "image/jpeg")
        assert (await client.get(url, params={"v": "1", "download": "1"})).content == data
        assert await kept(app) == 0


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *((side, value) for side in ("width", "height") for value in ("0", "-1", "4097", "1e2", "1.5", "", "x", "９")),
        ("width", "9" * 400),
        ("fit", "squeeze"),
        ("fit", "Cover"),
        ("fit", ""),
        ("format", "tiff"),
        ("format", "image/png"),
        ("format", "gif"),
        ("quality", "0"),
        ("quality", "101"),
        ("quality", "high"),
    ],
)
async def test_values_that_are_refused(app: App, field: str, value: str):
    base = await storage(app)
    async with app.client() as client:
        url = await picture(client, base, quarters(64, 48))
        fixed = (await put_at(client, base, "a.png", encoded(quarters(64, 48))))["url"]
        for link in (url, fixed):
            body = assert_error(await client.get(link, params={"width": "9", field: value}), 400, "VALIDATION_FAILED")
            assert [detail["field"] for detail in body["details"]] == [field]
        assert await kept(app) == 0


@pytest.mark.parametrize(
    "mime_type",
    ["image/svg+xml", "application/pdf", "text/plain", "image/tiff", "image/x-icon", "image/heic", "video/mp4", "x/y"],
)
async def test_files_that_are_no_pictures_to_be_decoded(app: App, mime_type: str):
    base = await storage(app)
    data = encoded(quarters(64, 48))
    async with app.client() as client:
        url = (await upload(client, base, data, mime_type=mime_type))["url"]
        for query in ({"width": "10"}, {"format": "png"}, {"quality": "3"}, {"fit": "cover"}, {"height": "3"}):
            assert_error(await client.get(url, params=query), 400, "NOT_AN_IMAGE")
        assert (await client.get(url)).content == data


async def test_conditions_ranges_and_heads(app: App):
    base = await storage(app)
    async with app.client() as client:
        source = noise(300, 300)
        url = await picture(client, base, source)
        original = await client.get(url)
    query = {"width": "200"}
    async with plain_client(app.server.url) as client:
        first_head = await client.head(url, params=query)
        whole = await client.get(url, params=query)
        assert whole.headers["cache-control"] == "public, max-age=31536000, immutable"
        assert whole.headers["etag"] != original.headers["etag"]
        for name in ("x-content-type-options", "content-security-policy", "cross-origin-resource-policy", "cache-tag"):
            assert whole.headers[name] == original.headers[name]
        head = await client.head(url, params=query)
        unlike = {"x-request-id", "date"}
        for one in (first_head, head):
            assert one.content == b""
            assert {n: v for n, v in one.headers.items() if n not in unlike} == {
                n: v for n, v in whole.headers.items() if n not in unlike
            }
        same = await client.get(url, params=query, headers={"If-None-Match": whole.headers["etag"]})
        assert (same.status_code, same.content) == (304, b"")
        other = await client.get(url, params=query, headers={"If-None-Match": original.headers["etag"]})
        assert other.status_code == 200
        assert_error(
            await client.get(url, params=query, headers={"If-Match": original.headers["etag"]}),
            412,
            "PRECONDITION_NOT_MET",
        )
        assert len(whole.content) > 64 * 1024
        for wanted in ("bytes=10-19", f"bytes=5-{len(whole.content) - 6}"):
            part = await client.get(url, params=query, headers={"Range": wanted})
            first, last = (int(end) for end in wanted.removeprefix("bytes=").split("-"))
            assert (part.status_code, part.content) == (206, whole.content[first : last + 1])
            assert part.headers["content-range"] == f"{wanted.replace('=', ' ')}/{len(whole.content)}"
        beyond = await client.get(url, params=query, headers={"Range": f"bytes={len(whole.content)}-"})
        assert_error(beyond, 416, "RANGE_NOT_SATISFIABLE")


async def test_a_path_that_is_overwritten(app: App):
    base = await storage(app)
    query = {"width": "20"}
    async with app.client() as client:
        item = await put_at(client, base, "logo.png", encoded(bands(64, 48, RED)))
        first = await client.get(item["url"], params=query)
        assert first.headers["cache-control"] == "public, max-age=0, must-revalidate"
        assert is_near(opened(first).getpixel((5, 5)), RED)
        pinned = await client.get(item["url"], params={**query, "v": "1"})
        assert pinned.headers["cache-control"] == "public, max-age=31536000, immutable"
        await put_at(client, base, "logo.png", encoded(bands(64, 48, BLUE)))
        second = await client.get(item["url"], params=query, headers={"If-None-Match": first.headers["etag"]})
        assert is_near(opened(second).getpixel((5, 5)), BLUE)
        same = await client.get(item["url"], params=query, headers={"If-None-Match": second.headers["etag"]})
        assert same.status_code == 304


async def test_a_private_storage_keeps_its_variants_private(app: App):
    query = {"width": "20"}
    base = await storage(app, read_access="Creator")
    ada, eve = [(await app.member(name))["access_token"] for name in ("ada", "eve")]
    async with app.client(ada) as client:
        item = await upload(client, base, encoded(bands(64, 48, RED)))
        url = item["url"]
        mine = await client.get(url, params=query)
        assert is_near(opened(mine).getpixel((5, 5)), RED)
        assert mine.headers["cache-control"] == "private, max-age=0, must-revalidate"
        signed = (await client.post(f"{base}/items/{item['id']}/signed-url", json={})).json()["url"]
    async with plain_client(app.server.url) as anybody:
        assert_error(await anybody.get(url, params=query), 401, "MEMBER_TOKEN_REQUIRED")
        assert (await anybody.get(f"{signed}&width=20")).content == mine.content
        assert_error(await anybody.get(f"{signed}x&width=20"), 403, "FILE_SIGNATURE_INVALID")
    async with app.client(eve) as client:
        assert_error(await client.get(url, params=query), 404, "FILE_NOT_FOUND")
        # The answer does not reveal whether a file is an image.
        assert_error(await client.get(url, params={"width": "21"}), 404, "FILE_NOT_FOUND")
    assert await kept(app) == 1
