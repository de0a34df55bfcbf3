"""What a search's text means, and what is shown of a text found: pure rules."""

import html
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilotis.data.query.pages import Window
from pilotis.data.query.search.compiler import Scope, all_found
from pilotis.data.query.search.completion import following
from pilotis.data.query.search.highlights import by_similarity, by_words
from pilotis.data.query.search.text import Term, all_of, folded, parse, tsquery
from pilotis.data.query.search.typos import edits
from pilotis.data.where.fields import Field
from pilotis.data.where.operands import Arguments
from pilotis.db.pool import Database
from pilotis.kit.errors import BadRequestError
from tests.services import address
from tests.support import Server


def terms(query: str) -> tuple[Term, ...]:
    return parse(query, 500).terms


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("one two", (Term(("one",)), Term(("two",), prefix=True))),
        ('one "two three"', (Term(("one",)), Term(("two", "three")))),
        ('"two three" one', (Term(("two", "three")), Term(("one",), prefix=True))),
        ("one -two", (Term(("one",)),)),
        ("well-known", (Term(("well", "known"), prefix=True),)),
        ('"open quote', (Term(("open", "quote")),)),
        ("Éclair", (Term(("eclair",), prefix=True),)),
    ],
)
def test_words_and_phrases(query: str, found: tuple[Term, ...]):
    assert terms(query) == found


def test_exclusions():
    assert parse('one -two -"three four"', 500).excluded == (Term(("two",)), Term(("three", "four")))


@pytest.mark.parametrize(
    ("query", "sql"),
    [
        ("one two", "('one') & ('two':*)"),
        ('"one two"', "('one' <-> 'two')"),
        ("東京", "('東京')"),
        ("東京都", "('東京' <-> '京都')"),
        ("京", "('京':*)"),
        ("iphone手机", "('iphone' <-> '手' <-> '手机')"),
        ("手机x", "('手机' <-> '机' <-> 'x':*)"),
    ],
)
def test_tsquery(query: str, sql: str):
    assert all_of(terms(query)) == sql


@given(st.text(min_size=1, max_size=60))
def test_nothing_in_a_query_is_an_operator(query: str):
    try:
        found = terms(query)
    except BadRequestError:
        return
    for term in found:
        assert re.fullmatch(r"'[^'\\\x00]+'(:\*)?( <-> '[^'\\\x00]+'(:\*)?)*", tsquery(term))


def test_edits_are_one_edit_away():
    found = edits("form")
    assert {"form", "from", "for", "forum", "fork", "forms", "aform"} <= found
    assert not {"frmo", "fo", "formss"} & found
    assert edits("cat") == {"cat"}
    assert edits("東京都庁") == {"東京都庁"}
    assert "привет" in edits("превет")


@given(st.text(max_size=300), st.sampled_from(["a", "one two", "京都", "<b>", "é", "amp"]))
def test_a_highlight_is_the_text_escaped_with_marks(text: str, query: str):
    try:
        search = parse(query, 500)
    except BadRequestError:
        return
    for highlight in (by_words(search), by_similarity(search)):
        shown = highlight(text)
        if shown is not None:
            bare = shown.replace("<mark>", "").replace("</mark>", "")
            assert "<" not in bare
            assert shown.count("<mark>") == shown.count("</mark>") > 0
            if len(text) < 200:
                assert folded(html.unescape(bare).strip("…")) in folded(text) or "…" in text


@pytest.mark.parametrize(
    ("text", "query", "shown"),
    [
        ("a Word and words", "word", "a <mark>Word</mark> and <mark>word</mark>s"),
        ("a Word and words", "word x", "a <mark>Word</mark> and words"),
        ("sword", "word", None),
        ("ÉCLAIR ﬁne", "eclair fine", "<mark>ÉCLAIR</mark> <mark>ﬁne</mark>"),
        ("東京都庁", "京都", "東<mark>京都</mark>庁"),
        ("big, data & big data", '"big data"', "<mark>big, data</mark> &amp; <mark>big data</mark>"),
        ("", "word", None),
        (None, "word", None),
    ],
)
def test_highlights(text: str | None, query: str, shown: str | None):
    assert by_words(parse(query, 500))(text) == shown


@pytest.mark.parametrize(
    ("prefix", "end"), [("a", "b"), ("az", "a{"), ("\ud7ff", "\ue000"), ("a\U0010ffff", "b"), ("\U0010ffff", None)]
)
def test_the_end_of_a_range_of_prefixes(prefix: str, end: str | None):
    assert following(prefix) == end


@pytest.mark.parametrize(
    ("limit", "fields", "expected"), [(20, 1, 20_000), (20, 5, 10_000), (1000, 1, 1000), (0, 1, 20_000)]
)
def test_highlights_take_bounded_time(limit: int, fields: int, expected: int):
    names = {f"f{index}": Field("f", None) for index in range(fields)}
    scope = Scope(None, names, "", Window(limit, 0), Arguments(), 0, None)  # type: ignore[arg-type]
    assert scope.characters_shown == expected


TEXTS = [
    *("Foo-Bar 12abc", "CAFÉ au lait", "foo_bar", "東京 foo", "foobar", "1.5e10 mm", "www.Example.com/path?x=1"),
    *("user@example.com", "it's", "a1b2c3", "ﬁne ﬁgs", "Straße", "x2y"),
]
QUERIES = [
    *("foo", "12abc", "cafe", "foo_bar", '"au lait"', "fo", "bar foo", "example", "example.com", "1.5e10", "15"),
    *("it's", "its", "a1b2", "東京", "fine", "strasse", "x2", "path x"),
]


def spelled_otherwise(term: Term) -> str:
    """The same words; no text is excluded before its words are computed, as with any spelling but the literal one."""
    return tsquery(term)


async def test_looking_for_the_words_first_loses_no_text(server: Server):
    database = Database(address(server), size=1)
    counts = {}
    for query in QUERIES:
        for names in (["value"], ["value", "other"]):
            found = []
            for spelled in (tsquery, spelled_otherwise):
                arguments = Arguments()
                scope = Scope(None, {name: Field(name, None) for name in names}, "", Window(1, 0), arguments, 0, None)
                condition = all_found(scope, terms(query), spelled)
                texts = f"unnest({arguments.bind(TEXTS, 'text[]')}) value, (select ''::text as other) others"
                rows = await database.fetch(f"select value from {texts} where {condition}", *arguments.values)
                found.append(sorted(row["value"] for row in rows))
                assert ("strpos" in condition) == (spelled is tsquery and query != "東京")
            assert found[0] == found[1]
            counts[query] = len(found[0])
    await database.close()
    assert counts["foo"] == 4
    assert counts["cafe"] == counts["12abc"] == counts["東京"] == 1
