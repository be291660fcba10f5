"""REST paths of the operations (A2A 5.3, 11.3), each also under a tenant (the proto's bindings).

Pure: a raw path and a method give an operation and the fields that the path holds. Segments are
decoded one by one, so an id may hold any character, `%2F` included; a verb such as `:cancel`
counts where its colon stands unencoded.
"""

from dataclasses import dataclass
from typing import NamedTuple
from urllib.parse import unquote_to_bytes

from a2a.utils.errors import InvalidParamsError


@dataclass(frozen=True, slots=True)
class Route:
    """One path: literal segments, `{field}` for a field of the request, and a verb."""

    pattern: str
    operations: dict[str, str]
    """HTTP method -> operation."""

    @property
    def segments(self) -> list[str]:
        """The pattern's segments, without its verb where the last one is a field."""
        return self.pattern.split("/")


# SubscribeToTask: POST by the specification's tables, GET by the proto (requirements D25)
ROUTES: tuple[Route, ...] = (
    Route("message:send", {"POST": "SendMessage"}),
    Route("message:stream", {"POST": "SendStreamingMessage"}),
    Route("tasks", {"GET": "ListTasks"}),
    Route("tasks/{id}", {"GET": "GetTask"}),
    Route("tasks/{id}:cancel", {"POST": "CancelTask"}),
    Route("tasks/{id}:subscribe", {"POST": "SubscribeToTask", "GET": "SubscribeToTask"}),
    Route(
        "tasks/{task_id}/pushNotificationConfigs",
        {"POST": "CreateTaskPushNotificationConfig", "GET": "ListTaskPushNotificationConfigs"},
    ),
    Route(
        "tasks/{task_id}/pushNotificationConfigs/{id}",
        {"GET": "GetTaskPushNotificationConfig", "DELETE": "DeleteTaskPushNotificationConfig"},
    ),
    Route("extendedAgentCard", {"GET": "GetExtendedAgentCard"}),
)


class Match(NamedTuple):
    """What a path leads to."""

    route: Route
    fields: dict[str, str]
    """Fields of the request that the path holds, by proto name."""


class _Matcher:
    """A route, compiled."""

    __slots__ = ("_fields", "_literals", "length", "route", "verb")

    def __init__(self, route: Route):
        self.route = route
        parts = route.segments
        tail, _, self.verb = parts[-1].partition(":") if "}" in parts[-1] else (parts[-1], "", "")
        parts = [*parts[:-1], tail]
        self.length = len(parts)
        self._literals = [(i, p.encode()) for i, p in enumerate(parts) if not p.startswith("{")]
        self._fields = [(i, p[1:-1]) for i, p in enumerate(parts) if p.startswith("{")]

    def match(self, segments: list[bytes]) -> dict[str, bytes] | None:
        """The raw values of the path's fields; None where the path is another one."""
        if any(segments[i] != literal for i, literal in self._literals):
            return None
        values = {name: segments[i] for i, name in self._fields}
        if self.verb:
            *_, last = values
            values[last], _, verb = values[last].rpartition(b":")
            if verb.decode("latin-1") != self.verb:
                return None
        return values if all(values.values()) else None


_VERBS_FIRST = sorted(map(_Matcher, ROUTES), key=lambda matcher: not matcher.verb)
_BY_LENGTH: dict[int, list[_Matcher]] = {
    n: [matcher for matcher in _VERBS_FIRST if matcher.length == n] for n in range(1, 6)
}


def find(path: bytes) -> Match | None:
    """The route of a raw path below the base, without its first slash. A first segment that no
    route without tenant explains is a tenant. Raises `InvalidParamsError` where a segment is not
    UTF-8."""
    segments = path.split(b"/")
    if b"%3" in segments[-1] and segments[-1][:10].lower().startswith(b"message%3a"):
        segments[-1] = b"message:" + segments[-1][10:]
    found = _match(segments)
    if found is None and len(segments) > 1 and segments[0]:
        found = _match(segments[1:])
        if found is not None:
            found.fields["tenant"] = _decode(segments[0])
    return found


def _match(segments: list[bytes]) -> Match | None:
    for matcher in _BY_LENGTH.get(len(segments), ()):
        values = matcher.match(segments)
        if values is not None:
            fields = {name: _decode(value) for name, value in values.items()}
            return Match(matcher.route, fields)
    return None


def _decode(segment: bytes) -> str:
    try:
        return unquote_to_bytes(segment).decode()
    except UnicodeDecodeError:
        raise InvalidParamsError("A segment of the path is not UTF-8") from None
