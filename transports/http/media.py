"""Media types of requests and answers (A2A 9.1, 11.1; RFC 9110 s12.5.1)."""

from functools import lru_cache

JSON = b"application/json"
A2A_JSON = b"application/a2a+json"


@lru_cache(maxsize=256)
def is_json(content_type: bytes) -> bool:
    """Whether a Content-Type header says JSON; charset and other parameters do not count."""
    kind = _essence(content_type)
    return kind in (JSON, b"application/json-rpc", b"application/jsonrequest") or kind.endswith(
        b"+json"
    )


@lru_cache(maxsize=1024)
def answer_type(accept: bytes, content_type: bytes) -> bytes:
    """The type of a REST answer: what Accept names, else the request's own, else A2A's."""
    accepted = _preferred(accept)
    if accepted is not None:
        return accepted
    kind = _essence(content_type)
    return kind if kind in (JSON, A2A_JSON) else A2A_JSON


@lru_cache(maxsize=1024)
def error_type(accept: bytes) -> bytes:
    """The type of a REST error: A2A's own only where Accept asks for it."""
    return _preferred(accept) or JSON


def _preferred(accept: bytes) -> bytes | None:
    """Which of the two types Accept likes better; None where it names neither."""
    best, best_weight = None, 0.0
    for item in accept.split(b","):
        kind, *parameters = (part.strip().lower() for part in item.split(b";"))
        weight = 1.0
        for parameter in parameters:
            if parameter.startswith(b"q="):
                weight = _weight(parameter[2:])
        if kind in (JSON, A2A_JSON) and weight > best_weight:
            best, best_weight = kind, weight
    return best


def _weight(text: bytes) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0


def _essence(content_type: bytes) -> bytes:
    return content_type.partition(b";")[0].strip().lower()
