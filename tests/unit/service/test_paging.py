"""Page tokens."""

import base64

import pytest

from gateway.call import Scope
from gateway.errors import ValidationError
from gateway.pb import ListTasksRequest
from gateway.service.paging import next_token, to_query
from tests.doubles.runtime import make_task

SCOPE = Scope("default", "acme", "alice")


def make_token(context_id: str = "") -> str:
    query = to_query(ListTasksRequest(context_id=context_id), SCOPE)
    return next_token(make_task("t-1"), SCOPE, query)


def test_names_the_place() -> None:
    """R21: the token holds the last task's status time and id, whatever the page size."""
    query = to_query(ListTasksRequest(page_token=make_token(), page_size=7), SCOPE)
    assert query.before == (1_700_000_000_000_000, "t-1")
    assert query.limit == 7


@pytest.mark.parametrize(
    "scope",
    [
        Scope("default", "acme", "bob"),
        Scope("default", "", "alice"),
        Scope("other", "acme", "alice"),
    ],
)
def test_belongs_to_its_scope(scope: Scope) -> None:
    """S76: a token of somebody else's list is refused."""
    with pytest.raises(ValidationError, match="pageToken"):
        to_query(ListTasksRequest(page_token=make_token()), scope)


def test_belongs_to_its_filters() -> None:
    """R21: other filters under an old token would skip tasks."""
    token = make_token("c1")
    assert to_query(ListTasksRequest(page_token=token, context_id="c1"), SCOPE).before
    with pytest.raises(ValidationError, match="same filters"):
        to_query(ListTasksRequest(page_token=token, context_id="c2"), SCOPE)


def test_every_change_is_noticed() -> None:
    """R30: no bit of a token can be changed."""
    raw = base64.urlsafe_b64decode(make_token() + "==")
    for position in range(len(raw)):
        changed = bytearray(raw)
        changed[position] ^= 1
        token = base64.urlsafe_b64encode(changed).decode().rstrip("=")
        with pytest.raises(ValidationError):
            to_query(ListTasksRequest(page_token=token), SCOPE)


@pytest.mark.parametrize("token", ["x", "====", "ünicode", "a b", "A" * 5000, "\x00", "AAAA", "1"])
def test_refuses_nonsense(token: str) -> None:
    """R30: -32602, never a crash."""
    with pytest.raises(ValidationError, match="pageToken"):
        to_query(ListTasksRequest(page_token=token), SCOPE)
