"""Pictures made for tests, and what tests do with those that come back."""

import hashlib
import io
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx
from PIL import Image

from tests.acceptance.test_files import upload
from tests.backstage import run_sql
from tests.support import App

RED, GREEN, BLUE, WHITE = (255, 0, 0), (0, 255, 0), (0, 0, 255), (255, 255, 255)
TYPES = {"PNG": "image/png", "JPEG": "image/jpeg", "GIF": "image/gif", "WEBP": "image/webp", "AVIF": "image/avif"}


def encoded(image: Image.Image, format_: str = "PNG", **options: Any) -> bytes:
    out = io.BytesIO()
    image.save(out, format_, **options)
    return out.getvalue()


def bands(width: int, height: int, *colours: tuple[int, ...], mode: str = "RGB") -> Image.Image:
    """Upright bands of equal width."""
    image = Image.new(mode, (width, height))
    for n, colour in enumerate(colours):
        image.paste(colour, (n * width // len(colours), 0, (n + 1) * width // len(colours), height))
    return image


def quarters(width: int, height: int) -> Image.Image:
    """Red and green above, blue and white below: no two turns of it look alike."""
    image = bands(width, height, RED, GREEN)
    image.paste(bands(width, height, BLUE, WHITE), (0, height // 2))
    return image


def noise(width: int, height: int) -> Image.Image:
    """Something with detail, that compresses badly."""
    return Image.merge("RGB", [Image.effect_noise((width, height), 90) for _ in range(3)])


def opened(answer: httpx.Response) -> Image.Image:
    """The picture in an answer, decoded."""
    assert answer.status_code == 200, answer.text
    image = Image.open(io.BytesIO(answer.content))
    image.load()
    assert answer.headers["content-type"] == Image.MIME[image.format]
    return image


def is_near(seen: Any, colour: tuple[int, ...], tolerance: int = 24) -> bool:
    return all(abs(a - b) <= tolerance for a, b in zip(seen, colour, strict=True))


async def picture(
    client: httpx.AsyncClient, base: str, image: Image.Image, format_: str = "PNG", **options: Any
) -> str:
    """Upload a picture and return its link."""
    return await uploaded(
        client, base, encoded(image, format_, **options), TYPES.get(format_, f"image/{format_.lower()}")
    )


async def uploaded(client: httpx.AsyncClient, base: str, data: bytes, mime_type: str = "image/png") -> str:
    """Upload bytes as a picture and return the link."""
    name = f"{hashlib.sha256(data).hexdigest()[:8]}.{mime_type.partition('/')[2]}"
    return (await upload(client, base, data, file_name=name, mime_type=mime_type))["url"]


async def kept(app: App) -> int:
    """How many variants the app's files have."""
    return await run_sql(app.server, "select count(*) from pilotis.variants where app_id = $1", UUID(app.app_id))


async def pending_deletions(app: App) -> int:
    """How many of the app's blobs are to be deleted."""
    return await run_sql(
        app.server, "select count(*) from pilotis.pending_deletions where app_id = $1", UUID(app.app_id)
    )


async def variant_path(app: App) -> Path:
    """The file that holds the bytes of the app's one variant."""
    blob_id = await run_sql(app.server, "select blob_id from pilotis.variants where app_id = $1", UUID(app.app_id))
    return app.server.data_dir / "blobs" / "objects" / "blobs" / app.app_id / str(blob_id)
