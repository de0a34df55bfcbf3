"""Ten questions about Debian's packages, each one body of the query route."""

from typing import Any, NamedTuple


class Question(NamedTuple):
    """A question, the query that answers it, and the column to show beside a package's name."""

    text: str
    query: dict[str, Any]
    shows: str


def _question(
    text: str, where: dict[str, Any], order_by: str = "name", direction: str = "asc", limit: int = 3, shows: str = ""
) -> Question:
    query = {"where": where, "order_by": order_by, "order_direction": direction, "limit": limit}
    return Question(text, query, shows or order_by)


QUESTIONS = [
    _question("Which are the ten largest games?", {"section": "games"}, "size", "desc", limit=10),
    _question("Which packages are Python modules?", {"name": {"$startsWith": "python3-"}}, shows="version"),
    _question(
        "What does the Debian Games Team maintain that is larger than 500 MB?",
        {"maintainer": {"$contains": "Debian Games Team"}, "size": {"$gt": 500_000_000}},
        "size",
        "desc",
    ),
    _question(
        "Which package of mathematics or science takes the most disk?",
        {"section": {"$in": ["math", "science"]}},
        "installed_size",
        "desc",
    ),
    _question(
        "Which descriptions speak of a web or HTTP server?",
        {"description": {"$matches": r"(?i)\y(web|http) server\y"}},
        shows="description",
    ),
    _question("Which packages without a homepage are the largest?", {"homepage": {"$isNull": True}}, "size", "desc"),
    _question("Which packages are between 1,000 and 1,100 bytes?", {"size": {"$between": [1000, 1100]}}, "size"),
    _question(
        "Which documentation is built for one architecture only?",
        {"name": {"$endsWith": "-doc"}, "architecture": {"$ne": "all"}},
        shows="architecture",
    ),
    _question(
        "Which programs edit images, by their tags?",
        {"tags": {"$arrayContains": ["role::program", "use::editing", "works-with::image"]}},
        "installed_size",
        "desc",
    ),
    _question(
        "Which databases, or tools for PostgreSQL or SQLite, are no libraries?",
        {
            "$or": [{"section": "database"}, {"tags": {"$arrayContainsAny": ["suite::postgresql", "suite::sqlite"]}}],
            "section": {"$nin": ["libs", "libdevel", "oldlibs"]},
            "$not": {"name": {"$startsWith": "lib"}},
        },
        "size",
        "desc",
    ),
]
