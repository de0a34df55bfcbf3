"""Questions for the advanced data routes: autocompletion, search and aggregation."""

from collections.abc import Callable
from typing import Any, NamedTuple


class AdvancedQuestion(NamedTuple):
    """A question, the route and the body that answer it, and what makes lines of the answer."""

    text: str
    route: str
    body: dict[str, Any]
    lines: Callable[[Any], list[str]]


def _suggestions(answer: Any) -> list[str]:
    return list(answer["suggestions"])


def _found(answer: Any) -> list[str]:
    rows = [f"{row['data']['name']:<32} {row['highlights']['description']}" for row in answer["data"]]
    return [f"{answer['total_count']:,} in all", *rows]


def _documents(answer: Any) -> list[str]:
    return [f"{document['_id']:<56.56} {document['total']:>15,}" for document in answer["data"]]


def _largest(by: str, total: dict[str, Any]) -> dict[str, Any]:
    return {
        "pipeline": [
            {"$match": {by: {"$isNull": False}}},
            {"$group": {"_id": f"${by}", "total": total}},
            {"$sort": {"total": -1, "_id": 1}},
            {"$limit": 10},
        ]
    }


ADVANCED_QUESTIONS = [
    AdvancedQuestion(
        "Which packages' names go on from python3-dj?",
        "autocomplete",
        {"field": "name", "query": "python3-dj", "limit": 5},
        _suggestions,
    ),
    AdvancedQuestion(
        "Which package did somebody mean by postgersql?",
        "autocomplete",
        {"field": "name", "query": "postgersql", "limit": 5},
        _suggestions,
    ),
    AdvancedQuestion(
        "Which descriptions speak of image editing, best first?",
        "search",
        {"fields": ["description"], "query": "image editor", "limit": 5},
        _found,
    ),
    AdvancedQuestion(
        "Which of them are command-line tools that have nothing to do with KDE?",
        "search",
        {"fields": ["description"], "query": '"command line" image -kde', "limit": 5},
        _found,
    ),
    AdvancedQuestion(
        "Which are the ten largest sections, in KiB on disk?",
        "aggregate",
        _largest("section", {"$sum": "$installed_size"}),
        _documents,
    ),
    AdvancedQuestion(
        "Who maintains the most packages?",
        "aggregate",
        _largest("maintainer", {"$count": {}}),
        _documents,
    ),
]
