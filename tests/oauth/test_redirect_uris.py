"""Addresses that members are sent back to: which may be registered, and which requested one is a registered one."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilotis.oauth.redirect_uris import check_redirect_uri, is_registered

ALLOWED = [
    "https://client.example",
    "https://client.example/cb?a=b&c=d",
    "https://client.example:8443/cb",
    "https://[2001:db8::1]/cb",
    "http://127.0.0.1/cb",
    "http://127.0.0.1:3000/cb",
    "http://[::1]:3000/cb",
    "http://localhost:3000/cb",
]
REFUSED = [
    "",
    "/cb",
    "//client.example/cb",
    "client.example/cb",
    "https:client.example/cb",
    "https:/client.example/cb",
    "https:///cb",
    "HTTPS://client.example/cb",
    "http://client.example/cb",
    "http://127.0.0.1.evil.example/cb",
    "http://127.0.0.2/cb",
    "http://localhost.evil.example/cb",
    "https://client.example/cb#fragment",
    "https://client.example/cb#",
    "https://user@client.example/cb",
    "https://user:password@client.example/cb",
    "https://client.example@evil.example/cb",
    "https://*.client.example/cb",
    "https://client.example/*",
    "https://client.example\\@evil.example/cb",
    "https://client.example/c b",
    "https://client.example/cb\n",
    "https://client.example/\u00e9",
    "https://client.example:0/cb",
    "https://client.example:99999/cb",
    "https://client.example:65536/cb",
    "https://client.example:00080/cb",
    "http://127.0.0.1:0/cb",
    "http://[::1]:00080/cb",
    "https://client.example:x/cb",
    "https://[::1/cb",
    'https://client.example/"><script>',
    "javascript:alert(1)",
    "data:text/html,x",
    "file:///etc/passwd",
    "view-source:https://client.example",
    "https://client.example/" + "a" * 2000,
]


@pytest.mark.parametrize("is_public", [True, False])
@pytest.mark.parametrize("uri", ALLOWED)
def test_an_address_that_may_be_registered(uri: str, is_public: bool):
    check_redirect_uri(uri, is_public=is_public)


@pytest.mark.parametrize("is_public", [True, False])
@pytest.mark.parametrize("uri", REFUSED)
def test_an_address_that_may_not(uri: str, is_public: bool):
    with pytest.raises(ValueError, match="redirect URI"):
        check_redirect_uri(uri, is_public=is_public)


def test_private_schemes_are_for_public_clients_and_have_a_dot():
    check_redirect_uri("com.example.app:/callback", is_public=True)
    with pytest.raises(ValueError, match="confidential"):
        check_redirect_uri("com.example.app:/callback", is_public=False)
    with pytest.raises(ValueError, match="reversed domain name"):
        check_redirect_uri("myapp:/callback", is_public=True)


@given(st.text(max_size=60))
def test_any_text_is_registered_or_refused_with_a_sentence(text: str):
    with suppress(ValueError):
        check_redirect_uri(text, is_public=True)
        assert ":" in text


REGISTERED = ["https://client.example/cb", "http://127.0.0.1:3000/cb", "http://[::1]/cb", "http://localhost:3000/cb"]


@pytest.mark.parametrize("uri", REGISTERED)
def test_the_very_characters_are_registered(uri: str):
    assert is_registered(uri, REGISTERED)


@pytest.mark.parametrize("uri", ["http://127.0.0.1/cb", "http://127.0.0.1:9/cb", "http://[::1]:1234/cb"])
def test_the_port_of_loopback_is_free(uri: str):
    assert is_registered(uri, REGISTERED)


@pytest.mark.parametrize(
    "uri",
    [
        "https://client.example/CB",
        "https://CLIENT.example/cb",
        "https://client.example/cb/",
        "https://client.example:443/cb",
        "https://client.example/cb?",
        "https://client.example/cb?x=1",
        "https://client.example/cb#",
        "https://client.example/a/../cb",
        "https://client.example/%63b",
        "https://client.example/cb%2e",
        "https://client.example@evil.example/cb",
        "https://client.example\\.evil.example/cb",
        "https://evil.example/cb",
        "http://client.example/cb",
        "http://127.0.0.1:3000/other",
        "http://127.0.0.1:3000/cb?x=1",
        "http://127.0.0.1:123456/cb",
        "http://127.0.0.1:0/cb",
        "http://127.0.0.1:65536/cb",
        "http://127.0.0.1:99999/cb",
        "http://127.0.0.1:00080/cb",
        "http://127.0.0.1:3000@evil.example/cb",
        "http://127.0.0.1.evil.example/cb",
        "http://localhost:9/cb",
        "http://[::1]:3000/other",
        "",
    ],
)
def test_nothing_else_is(uri: str):
    """Class G of the threats: compared as strings, never as URLs (RFC 9700, section 2.1)."""
    assert not is_registered(uri, REGISTERED)


def test_loopback_of_one_family_is_not_that_of_the_other():
    assert not is_registered("http://[::1]:3000/cb", ["http://127.0.0.1:3000/cb"])
    assert not is_registered("http://127.0.0.1:3000/cb", ["https://127.0.0.1:3000/cb"])


@pytest.mark.parametrize("uri", ["http://cafe.localhost:8090/", "http://a.b.localhost/signed-in"])
def test_a_site_on_ones_own_machine_is_a_page_and_no_client(uri: str) -> None:
    check_redirect_uri(uri, is_public=False, is_page=True)
    with pytest.raises(ValueError, match="use https://"):
        check_redirect_uri(uri, is_public=False)
    for wrong in ("http://cafe.localhost.example.com/", "http://xlocalhost/", "http://cafe.localhost@evil.example/"):
        with pytest.raises(ValueError, match="redirect URI"):
            check_redirect_uri(wrong, is_public=False, is_page=True)
