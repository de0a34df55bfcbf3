"""The pure rules of sites: paths, redirects, headers, fallbacks, encodings."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilotis.hosting import media, names, paths, representations, sitemaps
from pilotis.hosting.resolution import Found, Layout, Missing, Moved, PathRules, fall_back, is_navigation, resolve
from pilotis.hosting.rules import apply_headers, find_redirect, location, parse_headers, parse_redirects

FILES = dict.fromkeys(
    [
        "index.html",
        "about.html",
        "docs/index.html",
        "both.html",
        "both/index.html",
        "style.css",
        "blog/404.html",
        "_redirects",
        "_headers",
        "한글.html",
    ]
)


def resolved(path: str, *, clean_urls: bool = True, redirects: str = "", query: bytes = b""):
    found = paths.request_path(path.encode())
    layout = Layout(FILES, parse_redirects(redirects)[0])
    return resolve(layout, PathRules(clean_urls), found, query)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/", Found("index.html")),
        ("/index.html", Moved(308, b"/")),
        ("/about", Found("about.html")),
        ("/about.html", Moved(308, b"/about")),
        ("/about/", Moved(308, b"/about")),
        ("/docs/", Found("docs/index.html")),
        ("/docs", Moved(308, b"/docs/")),
        ("/docs/index.html", Moved(308, b"/docs/")),
        ("/both", Found("both.html")),
        ("/both/", Found("both/index.html")),
        ("/style.css", Found("style.css")),
        ("/style.css/", Missing("/style.css/")),
        ("/_redirects", Missing("/_redirects")),
        ("/_headers", Missing("/_headers")),
        ("//about.html", Missing("//about.html")),
        ("//evil.example/docs", Missing("//evil.example/docs")),
        ("/%ED%95%9C%EA%B8%80", Found("한글.html")),
        ("/%E1%84%92%E1%85%A1%E1%86%AB%E1%84%80%E1%85%B3%E1%86%AF.html", Moved(308, b"/%ED%95%9C%EA%B8%80")),
    ],
)
def test_clean_paths(path, expected):
    assert resolved(path) == expected


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/about", Missing("/about")),
        ("/about.html", Found("about.html")),
        ("/index.html", Found("index.html")),
        ("/docs", Moved(308, b"/docs/")),
    ],
)
def test_paths_as_they_are(path, expected):
    assert resolved(path, clean_urls=False) == expected


def test_the_query_is_kept():
    assert resolved("/docs", query=b"a=1") == Moved(308, b"/docs/?a=1")
    assert location("/new?b=2", b"a=1") == b"/new?b=2"
    assert location("https://other.example/x", b"a=1") == b"https://other.example/x?a=1"


RULES = """
# comment
/old /new 301
/about /elsewhere
/blog/:slug /posts/:slug 308
/shop/* /store/:splat 302
/app/* /index.html 200
/both /style.css 200
/away https://other.example/:missing
/loop /loop
/bad
/x //evil.example
/y /z 404
/any/:a/:a /b
"""


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/old", Moved(301, b"/new")),
        ("/old/", Moved(301, b"/new")),
        # 3xx rules come before files, 200 rules after them.
        ("/about", Moved(302, b"/elsewhere")),
        ("/both", Found("both.html")),
        ("/blog/one", Moved(308, b"/posts/one")),
        ("/blog/one/two", Missing("/blog/one/two")),
        ("/shop", Moved(302, b"/store/")),
        ("/shop/a/b", Moved(302, b"/store/a/b")),
        ("/shop//evil.example", Moved(302, b"/store/evil.example")),
        ("/app/deep/link", Found("index.html")),
        ("/loop", Missing("/loop")),
    ],
)
def test_redirects(path, expected):
    assert resolved(path, redirects=RULES) == expected


def test_bad_lines_are_skipped_with_a_warning():
    _, warnings = parse_redirects(RULES)
    assert [warning.message.split(" ")[1] for warning in warnings] == ["9", "11", "12", "13", "14"]


@given(st.text(max_size=60), st.text(max_size=60))
def test_no_redirect_leads_to_another_host_by_the_request(path, rest):
    redirects, _ = parse_redirects("/go/* /:splat 302\n/to/:name /:name 302")
    for asked in (f"/go/{path}", f"/to/{rest}"):
        decoded = paths.request_path(asked.encode(errors="ignore"))
        if decoded is None:
            continue
        rule = find_redirect(redirects, decoded, rewrites=False)
        if rule:
            assert not location(rule.target, b"").startswith((b"//", b"/\\"))


def test_headers_of_a_site():
    text = """/*
  X-Frame-Options: DENY
  Cache-Control: no-cache
/assets/*
  Cache-Control: public, max-age=60
  ! X-Frame-Options
  Content-Length: 5
  Set-Cookie: a=b; Domain=example.com
  Location: /x
lost
"""
    rules, warnings = parse_headers(text)
    assert len(warnings) == 4
    lines = [(b"cache-control", b"old"), (b"etag", b'"x"')]
    apply_headers(rules, "/assets/a.js", lines)
    assert sorted(lines) == [(b"cache-control", b"public, max-age=60"), (b"etag", b'"x"')]
    lines = []
    apply_headers(rules, "/page", lines)
    assert sorted(lines) == [(b"cache-control", b"no-cache"), (b"x-frame-options", b"DENY")]


@pytest.mark.parametrize(
    ("mode", "path", "page", "expected"),
    [
        ("auto", "/deep", True, None),
        ("auto", "/blog/deep/er", True, Found("blog/404.html", 404)),
        ("404", "/blog/x", True, Found("blog/404.html", 404)),
        ("spa", "/deep", True, Found("index.html")),
        ("spa", "/deep", False, None),
        ("spa", "/blog/x", False, Found("blog/404.html", 404)),
    ],
)
def test_fallbacks(mode, path, page, expected):
    layout = Layout(FILES, has_error_page=True)
    assert fall_back(layout, PathRules(True, mode), path, is_page=lambda: page) == expected


def test_auto_is_spa_without_an_error_page():
    layout = Layout({"index.html": None})
    assert fall_back(layout, PathRules(), "/deep", is_page=lambda: True) == Found("index.html")


@pytest.mark.parametrize(
    ("mode", "accept", "path", "expected"),
    [
        (b"navigate", None, "/a.js", True),
        (b"cors", b"text/html", "/a", False),
        (None, None, "/a", True),
        (None, b"*/*", "/a", True),
        (None, b"text/html,*/*", "/a.js", False),
        (None, b"application/json", "/a", False),
        (None, None, "/a.html", True),
    ],
)
def test_navigations(mode, accept, path, expected):
    assert is_navigation(mode, accept, path) is expected


@pytest.mark.parametrize(
    "raw", [b"/%2e%2e/x", b"/../x", b"/a%2Fb", b"/%00", b"/%ff", b"/a\\b", b"/%5c", b"/a/./b", b"x", b"/\x01"]
)
def test_paths_that_no_site_has(raw):
    assert paths.request_path(raw) is None


@given(st.binary(max_size=100))
def test_any_request_path_is_decoded_or_refused(raw):
    path = paths.request_path(b"/" + raw)
    assert path is None or (path.startswith("/") and ".." not in path.split("/"))


@pytest.mark.parametrize(
    "path", ["", "/a", "a/", "a//b", "../a", "a/../b", "./a", "a\\b", "C:/a", "a\0b", "a\nb", "x" * 256, "a/" * 600]
)
def test_paths_that_no_file_has(path):
    with pytest.raises(ValueError, match="The path"):
        paths.check_file_path(path)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("posts/42", "/posts/42"),
        ("/posts/42/", "/posts/42"),
        ("/posts/42?a=1#b", "/posts/42"),
        ("/index.html", "/"),
        ("/docs/index.html", "/docs"),
        ("/about.html", "/about"),
        ("//a//b", "/a/b"),
        ("/%ED%95%9C", "/한"),
    ],
)
def test_pages_have_one_path(text, expected):
    assert paths.page_path(text, clean_urls=True) == expected


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("assets/index-BkaXZzQd.js", True),
        ("assets/index-3f9Ad2c1.css", True),
        ("assets/some-component.js", False),
        ("app.8d3f1a2b9c.chunk.js", False),
        ("main.8d3f1a2b9c.js", True),
        ("_next/static/x.js", True),
        ("style.css", False),
        ("index-3f9Ad2c1.html", False),
    ],
)
def test_fingerprints(path, expected):
    assert media.is_fingerprinted(path) is expected


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (None, (False, False)),
        (b"gzip, br", (True, True)),
        (b"br;q=0, gzip;q=0.5", (False, True)),
        (b"*", (True, True)),
        (b"identity", (False, False)),
        (b"gzip;q=0.0, *", (True, False)),
    ],
)
def test_encodings(header, expected):
    assert tuple(representations.accepted(header)) == expected


@pytest.mark.parametrize(
    ("header", "if_range", "expected"),
    [
        (None, None, None),
        (b"bytes=0-3", None, (0, 4)),
        (b"bytes=-3", None, (7, 10)),
        (b"bytes=5-", None, (5, 10)),
        (b"bytes=0-99", None, (0, 10)),
        (b"bytes=10-", None, "invalid"),
        (b"bytes=-0", None, "invalid"),
        (b"bytes=3-1", None, None),
        (b"bytes=0-1,3-4", None, None),
        (b"lines=0-1", None, None),
        (b"bytes=0-3", b'"other"', None),
        (b"bytes=0-3", b'"tag"', (0, 4)),
    ],
)
def test_ranges(header, if_range, expected):
    assert representations.span_of(header, if_range, b'"tag"', 10) == expected


@pytest.mark.parametrize(
    ("label", "expected"),
    [
        ("cafe-guide", ("cafe-guide", False, None)),
        ("cafe--qa", ("cafe", True, None)),
        ("cafe--v12", ("cafe", False, 12)),
        ("cafe--v0", None),
        ("cafe--x", None),
        ("-cafe", None),
        ("a.b", None),
        ("Cafe", None),
    ],
)
def test_labels(label, expected):
    found = names.parse_label(label)
    assert (tuple(found) if found else None) == expected


@given(st.text(max_size=100))
def test_a_slug_is_a_label(name):
    slug = names.slug_of(name)
    assert 3 <= len(slug) <= 40
    assert names.parse_label(slug) == names.SiteName(slug)


def test_a_sitemap():
    metas = {
        "/posts/42": sitemaps.SitemapPage("2026-02-01", priority=0.8),
        "/about": sitemaps.SitemapPage("2026-02-01", is_included=False),
        "/secret": sitemaps.SitemapPage("2026-02-01", is_noindex=True),
    }
    made = sitemaps.sitemap("https://a.example", FILES, metas, "2026-01-01", clean_urls=True).decode()
    assert "<loc>https://a.example/posts/42</loc><lastmod>2026-02-01</lastmod><priority>0.8</priority>" in made
    assert "<loc>https://a.example/</loc><lastmod>2026-01-01</lastmod>" in made
    assert "about" not in made
    assert "secret" not in made
    assert "404" not in made
