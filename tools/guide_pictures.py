"""Take the pictures of the console's guide from a run of its tests: `python -m tools.guide_pictures`.

`pytest tests/console/test_in_use.py` leaves them in `tests/artifacts`; they are written to `docs/pictures`, smaller.
"""

from __future__ import annotations

from pathlib import Path

from PIL import Image

_ROOT = Path(__file__).parents[1]
_COLOURS = 128
_PICTURES = {"overview": "overview", "grid": "rows", "json": "json"}


def main() -> None:
    """Write each picture."""
    for name, screen in _PICTURES.items():
        taken = Image.open(_ROOT / "tests" / "artifacts" / f"console-in-use-{screen}-light-en.png")
        written = _ROOT / "docs" / "pictures" / f"console-{name}.png"
        taken.convert("RGB").quantize(_COLOURS).save(written, optimize=True)


if __name__ == "__main__":
    main()
