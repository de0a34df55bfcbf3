"""Creates one variant of one image, in its own process: `python -I -m pilotis.files.images.imaging RECIPE`.

The process reads the image from standard input. It writes to standard output a line, `ok`, `invalid` or `large`, and
after `ok` the result. Images are untrusted: this process has memory and processor time for one image, writes no files,
and exits afterwards.
"""

from __future__ import annotations

import importlib
import sys
import warnings
from contextlib import suppress
from io import BytesIO
from typing import NamedTuple, TypeAlias

from PIL import Image

from pilotis.files.recipes import LARGEST_SIDE, MAX_RESULT_BYTES, MAX_SOURCE_PIXELS, Recipe
from pilotis.kit.priority import process_gives_way

MEMORY_BYTES = 1 << 30
PROCESSOR_SECONDS = 20
_NICE = 5
# Decoding this multiple of the target size and then filtering looks like filtering the original.
_SPARE = 2
# From 0 to 10. AVIF is slow, and above a megapixel too slow for a waiting client.
_AVIF_SPEED = 8
_AVIF_SPEED_LARGE = 10
_AVIF_PIXELS = 1_000_000
_ORIENTATION = 0x0112
_TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
_SIDEWAYS = range(5, 9)


class TooLargeError(Exception):
    """The image has too many pixels, or the result too many bytes."""


Box: TypeAlias = tuple[float, float, float, float]


class Placement(NamedTuple):
    """The part of the source to use, as (left, top, right, bottom), and its target size."""

    box: Box
    size: tuple[int, int]


def placement(source: tuple[int, int], width: int | None, height: int | None, fit: str) -> Placement:
    """Return the placement of a source of some size, no side longer than `LARGEST_SIDE`.

    Nothing is enlarged: a requested size larger than the source is reduced to fit it, keeping its ratio.
    """
    have_x, have_y = source
    if fit == "contain" or not (width and height):
        scale = min(1, (width or LARGEST_SIDE) / have_x, (height or LARGEST_SIDE) / have_y)
        return Placement((0, 0, have_x, have_y), (_whole(have_x * scale), _whole(have_y * scale)))
    shrink = min(1, have_x / width, have_y / height)
    size = (_whole(width * shrink), _whole(height * shrink))
    if fit == "fill":
        return Placement((0, 0, have_x, have_y), size)
    scale = min(have_x / size[0], have_y / size[1])
    used_x, used_y = size[0] * scale, size[1] * scale
    left, top = (have_x - used_x) / 2, (have_y - used_y) / 2
    return Placement(_within((left, top, left + used_x, top + used_y), source), size)


def scaled(box: Box, size: tuple[int, int], reduced: tuple[int, int]) -> Box:
    """Return the position of a box after the image has been reduced."""
    x, y = reduced[0] / size[0], reduced[1] / size[1]
    return _within((box[0] * x, box[1] * y, box[2] * x, box[3] * y), reduced)


def _within(box: Box, size: tuple[int, int]) -> Box:
    # Rounding can leave a box slightly outside, which Pillow rejects.
    return (max(0.0, box[0]), max(0.0, box[1]), min(size[0], box[2]), min(size[1], box[3]))


def make(source: bytes, recipe: Recipe) -> bytes:
    """Return the variant; raises `TooLargeError`, `MemoryError`, or what a decoder raises for an invalid image."""
    image = _opened(source, recipe.decoder)
    turn = _orientation(image)
    sides = (recipe.height, recipe.width) if turn in _SIDEWAYS else (recipe.width, recipe.height)
    box, size = placement(image.size, *sides, recipe.fit)
    profile = image.info.get("icc_profile")
    original = image.size
    _decode_reduced(image, box, size)
    box = scaled(box, original, image.size)
    image = _plain(image, keep_cmyk=bool(profile))
    if size != image.size:
        image = image.resize(size, Image.Resampling.LANCZOS, box=box, reducing_gap=3.0)
    image = _in_srgb(image, profile)
    if turn in _TURNS:
        image = image.transpose(_TURNS[turn])
    return _encoded(image, recipe)


def _opened(source: bytes, decoder: str) -> Image.Image:
    """Read the header with this decoder only, and reject images with too many pixels before decoding."""
    Image.MAX_IMAGE_PIXELS = MAX_SOURCE_PIXELS
    for name in ("WebP", "Avif"):
        if decoder == name.upper():
            importlib.import_module(f"PIL.{name}ImagePlugin")
    with warnings.catch_warnings():
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        try:
            return Image.open(BytesIO(source), formats=[decoder])
        except (Image.DecompressionBombWarning, Image.DecompressionBombError):
            raise TooLargeError from None


def _orientation(image: Image.Image) -> int:
    # Invalid metadata does not make an image invalid.
    try:
        return int(image.getexif().get(_ORIENTATION, 1))
    except MemoryError:
        raise
    except Exception:
        return 1


def _decode_reduced(image: Image.Image, box: Box, size: tuple[int, int]) -> None:
    """Decode the image; a JPEG, if possible, at a half, a quarter or an eighth of its size, which is much faster."""
    needed = (
        _SPARE * image.size[0] * size[0] / (box[2] - box[0]),
        _SPARE * image.size[1] * size[1] / (box[3] - box[1]),
    )
    image.draft(None, (_whole(needed[0]), _whole(needed[1])))
    image.load()


def _plain(image: Image.Image, *, keep_cmyk: bool) -> Image.Image:
    """Return the image in a mode that can be filtered: grey, RGB, RGBA, or CMYK for conversion by a profile."""
    if image.mode.startswith("I;16"):
        return image.convert("I").point(lambda value: value * (1 / 256)).convert("L")
    if image.has_transparency_data:
        return image.convert("RGBA")
    if image.mode in {"L", "RGB"} or (image.mode == "CMYK" and keep_cmyk):
        return image
    return image.convert("L" if image.mode == "1" else "RGB")


def _in_srgb(image: Image.Image, profile: bytes | None) -> Image.Image:
    """Convert by the embedded colour profile; an invalid one is ignored."""
    if profile:
        from PIL import ImageCms

        mode = "RGBA" if image.mode == "RGBA" else "RGB"
        with suppress(ImageCms.PyCMSError, OSError, ValueError):
            given = ImageCms.ImageCmsProfile(BytesIO(profile))
            converted = ImageCms.profileToProfile(image, given, ImageCms.createProfile("sRGB"), outputMode=mode)
            assert converted is not None
            return converted
    return image.convert("RGB") if image.mode == "CMYK" else image


def _encoded(image: Image.Image, recipe: Recipe) -> bytes:
    image.info.clear()
    out = BytesIO()
    match recipe.format:
        case "jpeg":
            _on_white(image).save(out, "JPEG", quality=recipe.quality, optimize=True, progressive=True)
        case "png":
            image.save(out, "PNG")
        case "webp":
            image.save(out, "WEBP", quality=recipe.quality)
        case "avif":
            speed = _AVIF_SPEED if image.size[0] * image.size[1] <= _AVIF_PIXELS else _AVIF_SPEED_LARGE
            image.save(out, "AVIF", quality=recipe.quality, speed=speed, max_threads=1)
    if out.tell() > MAX_RESULT_BYTES:
        raise TooLargeError
    return out.getvalue()


def _on_white(image: Image.Image) -> Image.Image:
    if image.mode != "RGBA":
        return image
    ground = Image.new("RGB", image.size, "white")
    ground.paste(image, mask=image.getchannel("A"))
    return ground


def _whole(length: float) -> int:
    return max(1, round(length))


def confine() -> None:
    """Limit this process to the memory and processor time of one image, and to writing no files."""
    import resource

    process_gives_way(_NICE)
    for what, limit in (
        (resource.RLIMIT_AS, MEMORY_BYTES),
        (resource.RLIMIT_CPU, PROCESSOR_SECONDS),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
    ):
        # If the system already has a lower limit, or does not support this one, that stays in effect.
        with suppress(ValueError, OSError):
            resource.setrlimit(what, (limit, limit))


def main() -> None:
    """Read an image, convert it, and write the variant."""
    confine()
    result = b""
    try:
        result = make(sys.stdin.buffer.read(), Recipe.from_json(sys.argv[1]))
        outcome = b"ok\n"
    except (TooLargeError, MemoryError):
        outcome = b"large\n"
    except Exception:
        # Decoders raise almost any exception for invalid images.
        outcome = b"invalid\n"
    sys.stdout.buffer.write(outcome + result)


if __name__ == "__main__":
    main()
