"""The OpenAPI description has what the console asks for: `visit` holds each request of each test against it."""

from tests.console.described import undescribed


def test_what_is_not_described_is_told_from_what_is() -> None:
    upload = "http://any/v1/uploads/tus/0199c0de-4f1c-72b7-8d9e-c2b7d9e60a38?expires=1&signature=2"
    assert undescribed("HEAD", upload) == []
    assert undescribed("GET", "http://any/v1/apps?limit=1&offset=0") == []
    assert undescribed("GET", "http://any/v1/public/storages/files/any/path/a/b.png") == []
    assert undescribed("GET", "http://any/console") == []
    assert undescribed("GET", "http://any/v1/apps?limi=1") == ["The OpenAPI description has no limi in GET /v1/apps"]
    assert undescribed("POST", "http://any/v1/nowhere") == ["The OpenAPI description has no POST /v1/nowhere"]
    assert undescribed("HEAD", "http://any/v1/apps") == ["The OpenAPI description has no HEAD /v1/apps"]
