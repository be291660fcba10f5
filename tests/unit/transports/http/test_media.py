"""Media types."""

import pytest

from transports.http.media import A2A_JSON, JSON, answer_type, error_type, is_json


@pytest.mark.parametrize(
    ("accept", "content_type", "expected"),
    [
        (b"", b"", A2A_JSON),
        (b"*/*", b"", A2A_JSON),
        (b"*/*", b"application/json", JSON),
        (b"", b"application/json; charset=utf-8", JSON),
        (b"", b"application/a2a+json", A2A_JSON),
        (b"application/json", b"application/a2a+json", JSON),
        (b"application/a2a+json", b"application/json", A2A_JSON),
        (b"application/json;q=0.5, application/a2a+json", b"", A2A_JSON),
        (b"application/a2a+json;q=0, application/json;q=0.1", b"", JSON),
        (b"application/a2a+json;q=x", b"application/json", JSON),
        (b"text/event-stream", b"application/json", JSON),
        (b"text/html, Application/JSON", b"", JSON),
        (b"", b"text/plain", A2A_JSON),
    ],
)
def test_answers_in_the_type_asked_for(accept: bytes, content_type: bytes, expected: bytes) -> None:
    """R34: Accept, else the request's own type, else A2A's."""
    assert answer_type(accept, content_type) == expected


def test_errors_are_plain_json_unless_asked_otherwise() -> None:
    """R37; the conformance kit wants `application/json` on errors."""
    assert error_type(b"") == JSON
    assert error_type(b"*/*") == JSON
    assert error_type(b"application/a2a+json") == A2A_JSON


@pytest.mark.parametrize(
    ("content_type", "expected"),
    [
        (b"application/json", True),
        (b"application/vnd.x+json;v=1", True),
        (b"application/json-rpc", True),
        (b"text/json5", False),
        (b"text/plain", False),
        (b"", False),
    ],
)
def test_what_is_json(content_type: bytes, expected: bool) -> None:
    assert is_json(content_type) is expected
