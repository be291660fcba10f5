"""ListTasks: from a request to a query of the store, and the token of the next page.

A2A 3.1.4. A token is opaque to clients; it names the last task of the page before and carries a
check sum over that, the filters and the scope, so that a changed one, or one of another list, is
refused instead of skipping tasks. It gives no right: the query is bound to the scope.
"""

import base64
import binascii
import hashlib
import struct

from gateway.call import Scope
from gateway.errors import ValidationError
from gateway.pb import ListTasksRequest, Task
from gateway.service.validation import DEFAULT_PAGE_SIZE
from gateway.store import Query

_SUM_BYTES = 8
_PLACE = struct.Struct(">q")
_MAX_TOKEN_LENGTH = 1024


def to_query(request: ListTasksRequest, scope: Scope) -> Query:
    """The query of a checked request. Raises `ValidationError` for a token that is not ours."""
    status_from_us = None
    if request.HasField("status_timestamp_after"):
        after = request.status_timestamp_after
        status_from_us = after.seconds * 1_000_000 + after.nanos // 1000
    query = Query(
        context_id=request.context_id,
        state=int(request.status),
        status_from_us=status_from_us,
        limit=request.page_size if request.HasField("page_size") else DEFAULT_PAGE_SIZE,
    )
    if request.page_token:
        query = query._replace(before=_decode(request.page_token, scope, query))
    return query


def next_token(last: Task, scope: Scope, query: Query) -> str:
    """The token for the page after the one that ends with `last`."""
    timestamp = last.status.timestamp
    status_us = timestamp.seconds * 1_000_000 + timestamp.nanos // 1000
    body = _PLACE.pack(status_us) + last.id.encode()
    return base64.urlsafe_b64encode(_sum(body, scope, query) + body).decode().rstrip("=")


def _decode(token: str, scope: Scope, query: Query) -> tuple[int, str]:
    try:
        if len(token) > _MAX_TOKEN_LENGTH:
            raise ValueError
        padded = token.encode("ascii") + b"=" * (-len(token) % 4)
        raw = base64.b64decode(padded, altchars=b"-_", validate=True)
        check, body = raw[:_SUM_BYTES], raw[_SUM_BYTES:]
        if check != _sum(body, scope, query):
            raise ValueError
        (status_us,) = _PLACE.unpack(body[: _PLACE.size])
        return status_us, body[_PLACE.size :].decode()
    except (ValueError, UnicodeError, binascii.Error, struct.error):
        raise ValidationError(
            (
                "pageToken",
                "is not one of this list; send the nextPageToken of the page before "
                "together with the same filters, or none",
            )
        ) from None


def _sum(body: bytes, scope: Scope, query: Query) -> bytes:
    # the page size may change from page to page; the filters may not
    bound = repr((tuple(scope), query.context_id, query.state, query.status_from_us))
    key = hashlib.sha256(bound.encode("utf-8", "surrogatepass")).digest()
    return hashlib.blake2b(body, digest_size=_SUM_BYTES, key=key, person=b"a2a-page").digest()
