"""Class C (denial of service) and class J (files) for what decodes images: none of it is more than a 400."""

import asyncio
import gzip
import io
import struct
import zlib

import pytest
from PIL import Image

from tests.acceptance.test_files import resident, storage, upload
from tests.files.pictures import RED, bands, encoded, kept, noise, opened, uploaded
from tests.support import App, assert_error
from tests.whole import sample

pytestmark = pytest.mark.share(0.34)

WIDTH = {"width": "100"}


def png(*chunks: tuple[bytes, bytes]) -> bytes:
    """A PNG of chunks, with the checksums they need."""
    parts = [b"\x89PNG\r\n\x1a\n"]
    for kind, data in chunks:
        parts.append(struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)))
    return b"".join(parts)


def header(width: int, height: int) -> tuple[bytes, bytes]:
    return b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)


def real_bomb(side: int) -> bytes:
    """A PNG that really has so many pixels, all of them black: 430 MB of them in 0.4 MB."""
    packer, rows = zlib.compressobj(9), []
    for _ in range(side):
        rows.append(packer.compress(bytes(1 + 3 * side)))
    return png(header(side, side), (b"IDAT", b"".join(rows) + packer.flush()), (b"IEND", b""))


def of_claimed_size(format_: str, width: int, height: int) -> bytes:
    """A small picture whose header claims another size."""
    data = bytearray(encoded(bands(16, 16, RED), format_))
    if format_ == "GIF":
        data[6:10] = struct.pack("<HH", width, height)
        at = data.index(b"\x2c\0\0\0\0") + 5
        data[at : at + 4] = struct.pack("<HH", width, height)
    elif format_ == "BMP":
        data[18:26] = struct.pack("<ii", width, height)
    elif format_ == "JPEG":
        at = data.index(b"\xff\xc0") + 5
        data[at : at + 4] = struct.pack(">HH", height, width)
    return bytes(data)


@pytest.mark.parametrize(
    ("data", "mime_type"),
    [
        (png(header(50_000, 50_000), (b"IDAT", zlib.compress(bytes(1000))), (b"IEND", b"")), "image/png"),
        (png(header(2**31 - 1, 2**31 - 1), (b"IDAT", b""), (b"IEND", b"")), "image/png"),
        (png(header(7072, 7071), (b"IDAT", zlib.compress(bytes(1000))), (b"IEND", b"")), "image/png"),
        (real_bomb(12_000), "image/png"),
        (of_claimed_size("GIF", 60_000, 60_000), "image/gif"),
        (of_claimed_size("BMP", 60_000, 60_000), "image/bmp"),
        (of_claimed_size("JPEG", 60_000, 60_000), "image/jpeg"),
    ],
    ids=["claimed", "extreme", "just above", "real", "gif", "bmp", "jpeg"],
)
async def test_c_decompression_bombs(app: App, data: bytes, mime_type: str):
    base = await storage(app)
    async with app.client() as client:
        url = await uploaded(client, base, data, mime_type)
        before = resident(app)
        for answer in await asyncio.gather(*(client.get(url, params={"width": str(n)}) for n in range(1, 5))):
            assert_error(answer, 400, "IMAGE_TOO_LARGE")
        assert resident(app) - before < 20 << 20
        assert (await client.get(url)).content == data
    assert await kept(app) == 0


async def test_c_as_many_pixels_as_are_allowed(app: App):
    """The server's own memory does not grow by what is decoded."""
    base = await storage(app)
    rows = zlib.compress(bytes((1 + 3 * 7071) * 7071), 1)
    data = png(header(7071, 7071), (b"IDAT", rows), (b"IEND", b""))
    async with app.client() as client:
        url = await uploaded(client, base, data)
        before = resident(app)
        assert opened(await client.get(url, params=WIDTH)).size == (100, 100)
        # Without a side it is made as small as a side may be.
        assert opened(await client.get(url, params={"format": "webp"})).size == (4096, 4096)
        assert resident(app) - before < 20 << 20


async def test_c_a_source_of_too_many_bytes_is_not_read(app: App):
    base = await storage(app)
    async with app.client() as client:
        url = await uploaded(client, base, encoded(bands(16, 16, RED)) + bytes(50_000_000))
        assert_error(await client.get(url, params=WIDTH), 400, "IMAGE_TOO_LARGE")


async def test_c_a_result_of_too_many_bytes_is_not_sent(app: App):
    base = await storage(app)
    async with app.client() as client:
        url = await uploaded(client, base, encoded(noise(2600, 2600), "JPEG", quality=60), "image/jpeg")
        assert_error(await client.get(url, params={"format": "png"}), 400, "IMAGE_TOO_LARGE")
        assert opened(await client.get(url, params={"format": "png", "width": "100"})).size == (100, 100)


async def test_c_bombs_in_metadata(app: App):
    base = await storage(app)
    text = zlib.compress(bytes(200_000_000), 9)
    pixels = (b"IDAT", zlib.compress(bytes((1 + 3 * 16) * 16)))
    async with app.client() as client:
        for bomb in ((b"zTXt", b"a\0\0" + text), (b"iCCP", b"a\0\0" + text), (b"iTXt", b"a\0\1\0\0\0" + text)):
            url = await uploaded(client, base, png(header(16, 16), bomb, pixels, (b"IEND", b"")))
            before = resident(app)
            answer = await client.get(url, params=WIDTH)
            assert answer.status_code in {200, 400}, answer.text
            assert resident(app) - before < 20 << 20


@pytest.mark.parametrize("format_", ["PNG", "JPEG", "GIF", "WEBP", "AVIF", "BMP"])
async def test_c_truncated_and_damaged(app: App, format_: str):
    base = await storage(app)
    data = encoded(noise(120, 90), format_)
    mime_type = f"image/{format_.lower()}"
    async with app.client() as client:
        for length in sample((0, 1, 10, 30, len(data) // 3, len(data) * 2 // 3), 0.4, of=format_):
            url = await uploaded(client, base, data[:length], mime_type)
            assert_error(await client.get(url, params=WIDTH), 400, "INVALID_IMAGE")
        for at in sample(range(0, len(data), len(data) // 12), 0.3, of=format_):
            damaged = bytearray(data)
            damaged[at : at + 20] = bytes(byte ^ 0xA5 for byte in damaged[at : at + 20])
            url = await uploaded(client, base, bytes(damaged), mime_type)
            answer = await client.get(url, params=WIDTH)
            assert answer.status_code in {200, 400}, (at, answer.text)
    # The server's log is read for a 500 at the end of the run.


def other_formats() -> dict[str, bytes]:
    """Formats that Pillow could decode if it were not restricted to one decoder."""
    image = bands(64, 48, RED)
    made = {
        format_: encoded(image, format_)
        for format_ in ("TIFF", "EPS", "PPM", "TGA", "PCX", "ICO", "JPEG", "GIF", "WEBP", "BMP", "PDF", "DDS", "SGI")
    }
    made["PSD"] = b"8BPS\0\1" + bytes(6) + struct.pack(">HIIHH", 3, 48, 64, 8, 3) + bytes(12) + bytes(2 + 3 * 64 * 48)
    made["SVG"] = b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>"
    made["HTML"] = b"<!doctype html><script>alert(1)</script>"
    made["MVG"] = b"push graphic-context\nviewbox 0 0 9 9\nimage over 0,0 0,0 'msl:/etc/passwd'\npop graphic-context"
    made["gzip"] = gzip.compress(encoded(image))
    made["empty"] = b""
    return made


@pytest.mark.parametrize("name", sorted(other_formats()))
async def test_j_only_the_declared_types_decoder_is_tried(app: App, name: str):
    base = await storage(app)
    data = other_formats()[name]
    async with app.client() as client:
        url = await uploaded(client, base, data, "image/png")
        assert_error(await client.get(url, params=WIDTH), 400, "INVALID_IMAGE")
        assert_error(await client.get(url, params={**WIDTH, "format": "jpeg"}), 400, "INVALID_IMAGE")


async def test_j_of_a_polyglot_nothing_but_the_picture_comes_out(app: App):
    base = await storage(app)
    script = b"<script>alert(1)</script>"
    exif = Image.Exif()
    exif[0x010E] = script.decode()
    polyglots = [
        ("image/png", encoded(bands(64, 48, RED)) + script),
        ("image/gif", encoded(bands(64, 48, RED), "GIF", comment=script) + script),
        ("image/jpeg", encoded(bands(64, 48, RED), "JPEG", comment=script, exif=exif) + script),
        ("image/webp", encoded(bands(64, 48, RED), "WEBP", xmp=script) + script),
        ("image/bmp", encoded(bands(64, 48, RED), "BMP") + script),
        # What makes browsers save a file makes no variant of it dangerous.
        ("image/png; charset=utf-7", encoded(bands(64, 48, RED)) + script),
    ]
    async with app.client() as client:
        for mime_type, data in polyglots:
            url = await uploaded(client, base, data, mime_type)
            assert script in (await client.get(url)).content
            for query in ({}, {"format": "png"}, {"format": "jpeg"}, {"format": "webp"}):
                answer = await client.get(url, params={"width": "64", **query})
                assert opened(answer).size == (64, 48)
                assert script not in answer.content
                assert answer.headers["x-content-type-options"] == "nosniff"
                assert answer.headers["content-security-policy"].endswith("sandbox")


async def test_j_a_name_gets_into_no_header_by_a_variant(app: App):
    base = await storage(app)
    data = encoded(bands(64, 48, RED))
    async with app.client() as client:
        item = await upload(client, base, data, file_name='a";x=é%0d%0a.svg', mime_type="image/png")
        answer = await client.get(item["url"], params={"format": "webp"})
        assert answer.headers["content-disposition"].startswith('inline; filename="a_;x=__0d_0a.webp"; filename*=')
        assert io.BytesIO(answer.content).read(4) == b"RIFF"
