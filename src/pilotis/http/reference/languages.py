"""Conditions and pipelines explained on the page, by their operators with an example of each."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from pilotis.http.reference.highlight import highlight

CONDITIONS: tuple[tuple[str, str], ...] = (
    ('{"name": "Blue Door"}', "Equal. So is `$eq`."),
    ('{"name": {"$ne": "Blue Door"}}', "Everything else, including rows without a name."),
    ('{"rating": {"$gt": 4}}', "Greater; also `$gte`, `$lt`, `$lte`."),
    ('{"rating": {"$between": [4, 5]}}', "Both ends included."),
    ('{"name": {"$in": ["Blue Door", "Tea Room"]}}', "One of a list; `$nin` is none of it."),
    ('{"opened": {"$isNull": true}}', "Null or absent."),
    ('{"name": {"$contains": "oast"}}', "Part of a text; also `$startsWith`, `$endsWith`."),
    ('{"name": {"$matches": "(?i)^blue"}}', "A regular expression."),
    ('{"tags": {"$arrayContains": ["wifi", "view"]}}', "A list with all of these; `$arrayContainsAny` with one."),
    ('{"location.latitude": {"$gt": 35}}', "A path into an object."),
    ('{"$or": [{"rating": {"$gte": 4.5}}, {"tags": {"$arrayContains": "view"}}]}', "Any of these; `$and` is all."),
    ('{"$not": {"rating": {"$lt": 4}}}', "The negation of a condition."),
)

STAGES: tuple[tuple[str, str], ...] = (
    ('{"$match": {"rating": {"$gte": 3}}}', "Keeps matching documents. Put it first, where it can use indexes."),
    ('{"$unwind": "$tags"}', "One document per element of a list."),
    (
        '{"$group": {"_id": "$tags", "cafes": {"$count": {}}, "mean": {"$avg": "$rating"}}}',
        "One document per value of `_id`. Accumulators: `$sum` `$avg` `$min` `$max` `$count` `$first` `$last` "
        "`$push` `$addToSet`.",
    ),
    ('{"$addFields": {"stars": {"$round": ["$rating", 0]}}}', "Adds computed fields."),
    ('{"$project": {"name": 1, "year": {"$year": "$opened"}}}', "Keeps fields and computes new ones."),
    ('{"$sort": {"rating": -1}}', "1 is ascending, -1 descending."),
    ('{"$skip": 1}', "Skips the first documents."),
    ('{"$limit": 2}', "Keeps the first documents."),
    ('{"$count": "cafes"}', "One document with the number of documents."),
)


def _list(items: Iterable[tuple[str, str]]) -> str:
    rows = "".join(
        f'<div class="rule"><dt><code>{highlight(code)}</code></dt><dd>{_marked(text)}</dd></div>\n'
        for code, text in items
    )
    return f'<dl class="rules">\n{rows}</dl>'


def _marked(text: str) -> str:
    parts = escape(text).split("`")
    return "".join(f"<code>{part}</code>" if index % 2 else part for index, part in enumerate(parts))


def conditions() -> str:
    """Return the explanation of `where`, as HTML."""
    return f"""<section id="where" class="language">
<h2>Conditions</h2>
<p>A <code>where</code> is an object. Each key is a column, each value what the column must satisfy; all of them must
hold. <a href="#queryRows">Query rows</a> and <a href="#deleteRows">delete rows</a> take one, and so does a pipeline's
<code>$match</code>. Every rule in detail: <a href="/docs/guides/where">Where</a>.</p>
{_list(CONDITIONS)}
</section>
"""


def pipeline() -> str:
    """Return the explanation of pipelines, as HTML."""
    return f"""<section id="pipeline" class="language">
<h2>Aggregation pipeline</h2>
<p><a href="#aggregateRows">Aggregate rows</a> takes a list of stages. Rows enter the first as documents, and what
comes out of a stage enters the next. The words and their meaning are MongoDB's. <code>"$rating"</code> is a field,
anything else stands for itself. Every operator: <a href="/docs/guides/aggregate">Aggregation</a>.</p>
{_list(STAGES)}
</section>
"""
