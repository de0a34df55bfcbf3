"""The signature itself; `test_s3.py` shows what a server makes of it."""

from datetime import UTC, datetime
from urllib.parse import parse_qs, urlsplit

from pilotis.blobs.presign import Presigner

# The example of "Authenticating Requests: Using Query Parameters" in the Amazon S3 API reference.
EXAMPLE = Presigner(
    "https://examplebucket.s3.amazonaws.com",
    "AKIAIOSFODNN7EXAMPLE",
    "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    "us-east-1",
)
MOMENT = datetime(2013, 5, 24, tzinfo=UTC)


def test_the_example_of_the_reference():
    url = EXAMPLE.sign("GET", "test.txt", expires_seconds=86_400, now=MOMENT)
    assert url.startswith("https://examplebucket.s3.amazonaws.com/test.txt?")
    assert parse_qs(urlsplit(url).query) == {
        "X-Amz-Algorithm": ["AWS4-HMAC-SHA256"],
        "X-Amz-Credential": ["AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request"],
        "X-Amz-Date": ["20130524T000000Z"],
        "X-Amz-Expires": ["86400"],
        "X-Amz-SignedHeaders": ["host"],
        "X-Amz-Signature": ["aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404"],
    }


def signature(**changes: object) -> str:
    arguments = {"method": "PUT", "key": "a", "expires_seconds": 60, "headers": {"Content-Length": "5"}, "now": MOMENT}
    url = EXAMPLE.sign(**(arguments | changes))  # type: ignore[arg-type]
    return parse_qs(urlsplit(url).query)["X-Amz-Signature"][0]


def test_everything_is_signed():
    variants = [
        {},
        {"method": "GET"},
        {"key": "b"},
        {"expires_seconds": 61},
        {"headers": {"Content-Length": "6"}},
        {"headers": {}},
        {"query": {"response-content-type": "a/b"}},
        {"now": datetime(2013, 5, 24, 0, 0, 1, tzinfo=UTC)},
    ]
    assert len({signature(**variant) for variant in variants}) == len(variants)


def test_a_url_lives_seven_days_at_most():
    url = EXAMPLE.sign("GET", "a", expires_seconds=10**9)
    assert parse_qs(urlsplit(url).query)["X-Amz-Expires"] == ["604800"]


def test_the_bucket_may_be_in_the_path():
    presigner = Presigner("http://127.0.0.1:9000/bucket/prefix/", "a", "b", "eu")
    assert presigner.sign("GET", "c/d", expires_seconds=1).startswith("http://127.0.0.1:9000/bucket/prefix/c/d?")
