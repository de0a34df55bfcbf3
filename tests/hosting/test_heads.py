"""Metadata in heads: it replaces the page's own, and hostile values stay text."""

import html
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilotis.hosting.heads import find_slots, with_meta
from pilotis.hosting.types import PageMeta

PAGE = (
    b'<!doctype html><html><head lang="ko"><meta charset="utf-8"><!-- <head> --><title>Old</title>'
    b"<script>var a=\"</head><title>x</title>\"</script><meta property='og:title' content='old > x'>"
    b"<meta name=description content=old></head><body><title>no</title><p>body</p></body></html>"
)


def meta(**given_):
    base = {"path": "/", "title": None, "description": None, "image": None, "og_type": None}
    return PageMeta(**{**base, "created_at": "", "updated_at": "", **given_})


def rendered(page, **given_):
    return with_meta(page, find_slots(page), meta(**given_), origin="https://a.example", path="/x")


class Reader(HTMLParser):
    """What a page says of itself, as a browser reads it."""

    def __init__(self, page):
        super().__init__(convert_charrefs=True)
        self.metas, self.titles, self.tags, self._in_title = {}, [], [], False
        self.feed(page.decode())

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        given_ = dict(attrs)
        if tag == "meta" and (name := given_.get("property") or given_.get("name")):
            assert set(given_) <= {"property", "name", "content"}
            self.metas.setdefault(name, []).append(given_.get("content"))
        if tag == "title":
            self._in_title = True
            self.titles.append("")

    def handle_endtag(self, tag):
        if tag == "title":
            self._in_title = False

    def handle_data(self, data):
        if self._in_title:
            self.titles[-1] += data


def test_the_pages_own_tags_are_replaced():
    read = Reader(rendered(PAGE, title="New", description="News", image="/a.png"))
    assert read.titles == ["New", "no"]
    assert read.metas["og:title"] == ["New"]
    assert read.metas["description"] == ["News"]
    assert read.metas["og:image"] == ["https://a.example/a.png"]
    assert read.metas["twitter:card"] == ["summary_large_image"]
    assert read.metas["og:url"] == ["https://a.example/x"]


def test_what_metadata_does_not_have_stays():
    made = rendered(PAGE, title="New")
    assert b"<meta name=description content=old>" in made
    assert made.index(b"charset") < made.index(b"og:title")
    assert b'var a="</head><title>x</title>"' in made


@pytest.mark.parametrize(
    "page", [b"", b"<p>text", b"\xef\xbb\xbf<p>", b"<!doctype html><p>", b"<html><body>", b"<head"]
)
def test_a_page_without_a_head_gets_metadata_too(page):
    made = rendered(page, title="New")
    assert b"<title>New</title>" in made
    assert made.startswith(b"\xef\xbb\xbf") == page.startswith(b"\xef\xbb\xbf")


HOSTILE = st.sampled_from(
    [
        '"><script>alert(1)</script>',
        "</title><script>x</script>",
        "--><b>",
        "' onload='x",
        "&quot;",
        "</script>",
        "<!--",
    ]
)


@given(
    st.lists(HOSTILE | st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=20), min_size=1).map("".join)
)
def test_no_value_is_markup(text):
    before = Reader(PAGE)
    values = dict.fromkeys(["title", "description", "keywords", "og_type", "site_name", "locale", "robots"], text)
    made = rendered(PAGE, **values, json_ld={text: [text]}, twitter_card=text)
    read = Reader(made)
    # The metadata brings tags of three kinds, and no others.
    assert set(read.tags) - {"meta", "title", "script"} == set(before.tags) - {"meta", "title", "script"}
    assert read.tags.count("script") == before.tags.count("script") + 1
    # The page's own title is in front of neither.
    assert html.escape(text, quote=True).encode("ascii", "xmlcharrefreplace") in made
    if text.strip():
        assert read.metas["og:title"] == [text]
        assert read.metas["og:site_name"] == [text]


@given(st.binary(max_size=300))
def test_any_page_keeps_its_bytes_around_the_metadata(page):
    slots = find_slots(page)
    assert 0 <= slots.insert <= len(page) + 3
    assert all(0 <= cut.start < cut.end <= len(page) for cut in slots.cuts)
    assert b"<title>New</title>" in rendered(page, title="New")
