"""The benchmark table: eight columns of common types, with realistic rows."""

from __future__ import annotations

import random
from typing import Any

import msgspec

SCHEMA = {
    "name": "string",
    "city": "string",
    "email": "string",
    "age": "int",
    "score": "number",
    "active": "boolean",
    "joined": "date",
    "tags": "array",
}
CITIES = [f"city {number}" for number in range(100)]
_TAGS = ["red", "green", "blue", "large", "small", "new"]


def row(number: int) -> dict[str, Any]:
    """Return the row of this number, the same at every run."""
    random_ = random.Random(number)
    return {
        "name": f"Person number {number}",
        "city": random_.choice(CITIES),
        "email": f"person.{number}@example.com",
        "age": random_.randint(18, 90),
        "score": random_.randint(0, 100_000) / 100,
        "active": random_.random() < 0.8,
        "joined": f"20{random_.randint(10, 25)}-{random_.randint(1, 12):02}-{random_.randint(1, 28):02}T12:30:00Z",
        "tags": random_.sample(_TAGS, 2),
    }


def text(value: Any) -> str:
    """Return JSON text in one line."""
    return msgspec.json.encode(value).decode()
