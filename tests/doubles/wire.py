"""A client of a wire that a test scripts, behind `transports.wire.Client`."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from gateway.errors import BY_REASON, Failure, FailureError
from gateway.pb import ProtoMessage, StreamResponse
from transports.wire import Events, UnreachableError


@dataclass(frozen=True)
class Made:
    """One call."""

    method: str
    request: Any
    metadata: Mapping[str, str]
    timeout: float | None = None


Step = tuple[int, StreamResponse] | Exception
Script = Iterable[Step]


class ScriptedClient:
    """Answers unary calls by `on_unary`, and each stream by the next of `streams`: events, and an
    exception where it breaks."""

    def __init__(
        self,
        streams: Iterable[Script] = (),
        on_unary: Callable[[Made], ProtoMessage] | None = None,
    ) -> None:
        self.metadata: dict[str, str] = {}
        self.is_lost = False
        self.is_closed = False
        self.calls: list[Made] = []
        self._streams = iter(streams)
        self._on_unary = on_unary

    async def unary(
        self,
        method: str,
        request: ProtoMessage,
        metadata: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> ProtoMessage:
        self.calls.append(Made(method, request, dict(metadata or {}), timeout))
        assert self._on_unary is not None
        return self._on_unary(self.calls[-1])

    async def stream(
        self,
        method: str,
        request: ProtoMessage,
        metadata: Mapping[str, str] | None = None,
        headers: dict[str, str] | None = None,
    ) -> Events:
        self.calls.append(Made(method, request, dict(metadata or {})))
        for step in next(self._streams):
            if isinstance(step, Exception):
                raise step
            yield step

    async def aclose(self) -> None:
        self.is_closed = True

    def opener(self) -> Callable[[], Awaitable["ScriptedClient"]]:
        """Gives this client."""

        async def open() -> "ScriptedClient":
            return self

        return open


def failure(reason: str, text: str = "as the test says", **fields: Any) -> FailureError:
    """A failure of the table."""
    return FailureError(Failure(BY_REASON[reason], text, **fields))


def broken() -> FailureError:
    """A connection that broke in the middle of a call."""
    return failure("UNAVAILABLE", "broke")


def unreachable() -> UnreachableError:
    """A server that is not there."""
    return UnreachableError("nobody listens")
