"""URLs that the server may be asked to call: which are taken, and which host they name."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilotis.kit.target_urls import MAX_URL_CHARACTERS, parse_target


@pytest.mark.parametrize(
    ("text", "host", "port", "url"),
    [
        ("https://example.com", "example.com", 443, "https://example.com/"),
        ("http://example.com:8080/a", "example.com", 8080, "http://example.com:8080/a"),
        ("https://example.com:443/", "example.com", 443, "https://example.com/"),
        ("HTTPS://EXAMPLE.com/A", "example.com", 443, "https://example.com/A"),
        ("https://example.com?x=1", "example.com", 443, "https://example.com/?x=1"),
        ("https://example.com/a%2Fb?c=d%26e&f=%zz", "example.com", 443, "https://example.com/a%2Fb?c=d%26e&f=%zz"),
        ("https://example.com/a/../b//c", "example.com", 443, "https://example.com/a/../b//c"),
        ("https://example.com/주문?é=ü", "example.com", 443, "https://example.com/%EC%A3%BC%EB%AC%B8?%C3%A9=%C3%BC"),
        ('https://example.com/"<>', "example.com", 443, "https://example.com/%22%3C%3E"),
        ("https://example.com/user@here", "example.com", 443, "https://example.com/user@here"),
        ("https://bücher.example/", "xn--bcher-kva.example", 443, "https://xn--bcher-kva.example/"),
        ("https://faß.de/", "xn--fa-hia.de", 443, "https://xn--fa-hia.de/"),
        ("https://１２７.0.0.1/", "127.0.0.1", 443, "https://127.0.0.1/"),
        ("https://127.1/", "127.0.0.1", 443, "https://127.0.0.1/"),
        ("https://2130706433/", "127.0.0.1", 443, "https://127.0.0.1/"),
        ("https://0x7f.1:8443/", "127.0.0.1", 8443, "https://127.0.0.1:8443/"),
        ("https://[::1]:8443/a", "::1", 8443, "https://[::1]:8443/a"),
        ("https://[::FFFF:127.0.0.1]/", "::ffff:7f00:1", 443, "https://[::ffff:7f00:1]/"),
        ("https://example.com./", "example.com.", 443, "https://example.com./"),
    ],
)
def test_what_a_url_names(text: str, host: str, port: int, url: str):
    target = parse_target(text)
    if ":" in host:
        assert target.is_literal
    assert (target.host, target.port, str(target.url)) == (host, port, url)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "example.com",
        "//example.com/",
        "/path",
        "https:",
        "https://",
        "https:///path",
        "https:example.com",
        "https:/example.com",
        "ftp://example.com/",
        "file:///etc/passwd",
        "gopher://example.com/",
        "javascript:alert(1)",
        "unix:///run/x",
        "https://user@example.com/",
        "https://user:password@example.com/",
        "https://@example.com/",
        "https://good.example@10.0.0.1/",
        "https://example.com/#fragment",
        "https://example.com#@10.0.0.1/",
        "https://example.com/#",
        "https://[fe80::1%25lo]/",
        "https://[fe80::1%lo]/",
        "https://[::1/",
        "https://::1/",
        "https://[::1]extra/",
        "https://[v1.x]/",
        "https://exa mple.com/",
        "https://example.com/a b",
        " https://example.com/",
        "https://example.com/\n",
        "https://example.com/\r\nHost: x",
        "https://example.com/\t",
        "https://example.com/\0",
        "https://example.com/\x7f",
        "https://example.com/\u202egnp",
        "https://example.com\\@10.0.0.1/",
        "https://ex%61mple.com/",
        "https://example.com:0/",
        "https://example.com:65536/",
        "https://example.com:-1/",
        "https://example.com:x/",
        "https://example.com:８0８0/x:y@z",
        "https://a..b/",
        "https://.example.com/",
        "https://256.256.256.256/",
        "https://1.2.3.4.5/",
        "https://09.1/",
        f"https://{'a' * 64}.example/",
        f"https://{'.'.join(['a' * 60] * 5)}/",
        "https://example.com/" + "a" * MAX_URL_CHARACTERS,
    ],
)
def test_what_is_no_url_to_call(text: str):
    with pytest.raises(ValueError, match="The URL"):
        parse_target(text)


@given(st.text(max_size=60))
def test_any_text_is_a_target_in_ascii_or_a_value_error(text: str):
    for candidate in (text, f"https://{text}", f"https://example.com/{text}", f"https://{text}.example/"):
        try:
            target = parse_target(candidate)
        except ValueError:
            continue
        assert target.host.isascii()
        assert str(target.url).isascii()
        assert target.url.raw_host == target.host
        assert target.url.user is None
        assert not set(str(target.url)) & set(" \r\n\t\\#")
        # What was saved is read again as the same.
        assert parse_target(str(target.url)) == target
