"""Headers that tell a client when to come back, and with what (RFC 9110 s10.2.3, s11.6.1)."""

import math

from gateway.errors import Failure
from gateway.pb import ProtoMessage, Task, TaskState
from transports.http.exchange import Headers

_POLL: Headers = [(b"retry-after", b"1")]
_AT_WORK = frozenset({TaskState.TASK_STATE_SUBMITTED, TaskState.TASK_STATE_WORKING})


def poll_headers(message: ProtoMessage) -> Headers:
    """`Retry-After: 1` on a task that is at work: the least pause between two polls (S88)."""
    if type(message) is Task and message.status.state in _AT_WORK:
        return _POLL
    return []


def retry_headers(failure: Failure) -> Headers:
    """`Retry-After` where the failure says when to try again; whole seconds."""
    if failure.retry_after is None:
        return []
    return [(b"retry-after", b"%d" % max(1, math.ceil(failure.retry_after)))]


def challenge_headers(failure: Failure) -> Headers:
    """`WWW-Authenticate`, one line for each scheme."""
    challenges = failure.challenges or ("Bearer",)
    return [(b"www-authenticate", c.encode("latin-1", "replace")) for c in challenges]
