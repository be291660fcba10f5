"""Running one behaviour at every door, and comparing what comes out."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any, TypeVar
from uuid import uuid4

from google.protobuf import json_format

from gateway.errors import Failure
from gateway.pb import ProtoMessage
from tests.conftest import run
from tests.contract.doors import DOORS, Door, Event, Metadata, Places
from tests.contract.talking import Talk

T = TypeVar("T")
Behaviour = Callable[[Talk], Awaitable[T]]

_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_MESSAGE_ID = re.compile(r'(?<=")(answer-to-)?m[0-9]+(?=")')
_TIME = re.compile(r'(?<=")[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z(?=")')
_REFERENCE = re.compile(r"(?<=reference )[0-9a-f]{12}|(?<=\"reference\": \")[0-9a-f]{12}")


@asynccontextmanager
async def talk(door: Door, places: Places, metadata: Metadata | None = None) -> AsyncIterator[Talk]:
    """A caller at a door, in a tenant of its own."""
    client = await door.connect(places)
    try:
        yield Talk(door, client, f"t-{uuid4()}", metadata)
    finally:
        await client.close()


@asynccontextmanager
async def talks(
    places: Places, metadata: Metadata | None = None, doors: Iterable[Door] = DOORS
) -> AsyncIterator[list[Talk]]:
    """One caller at all doors, in one tenant."""
    clients = [await door.connect(places) for door in doors]
    tenant = f"t-{uuid4()}"
    try:
        yield [
            Talk(door, client, tenant, metadata)
            for door, client in zip(doors, clients, strict=True)
        ]
    finally:
        await asyncio.gather(*(client.close() for client in clients))


def everywhere(
    places: Places,
    behaviour: Behaviour[T],
    *,
    metadata: Metadata | None = None,
    doors: Iterable[Door] = DOORS,
) -> T:
    """Run the behaviour at all doors side by side. What it returns has to be the same at each,
    but for ids, times and references; gives the outcome of the first door."""
    doors = tuple(doors)
    assert doors, "no door is left"

    async def at(door: Door) -> T:
        try:
            async with talk(door, places, metadata) as caller:
                return await behaviour(caller)
        except BaseException as error:
            error.add_note(f"at the door {door}")
            raise

    async def main() -> list[T]:
        outcomes = await asyncio.gather(*map(at, doors), return_exceptions=True)
        errors = [o for o in outcomes if isinstance(o, BaseException)]
        for error in errors[1:]:
            errors[0].add_note(f"and {error!r} {error.__notes__[-1]}")
        if errors:
            raise errors[0]
        return outcomes  # type: ignore[return-value]

    outcomes = run(main())
    first = scrub(outcomes[0])
    for door, outcome in zip(doors[1:], outcomes[1:], strict=True):
        other = scrub(outcome)
        assert other == first, f"{door} differs from {doors[0]}"
    return outcomes[0]


def scrub(value: Any) -> Any:
    """The value as JSON, with ids, times and references replaced by their order of appearance."""
    text = json.dumps(_plain(value), sort_keys=True)
    seen: dict[str, str] = {}

    def name(found: re.Match[str]) -> str:
        return seen.setdefault(found[0], f"#{len(seen) + 1}")

    text = _ID.sub(name, text)
    text = _MESSAGE_ID.sub(name, text)
    return json.loads(_REFERENCE.sub("#", _TIME.sub("time", text)))


def _plain(value: Any) -> Any:
    if isinstance(value, ProtoMessage):
        return json_format.MessageToDict(value)
    if isinstance(value, Event):
        return _plain(value.response)
    if isinstance(value, Failure):
        return {
            "reason": value.row.reason,
            "message": value.message,
            "info": dict(value.info),
            "violations": [list(violation) for violation in value.violations],
            "challenges": list(value.challenges),
            "retryAfter": value.retry_after,
        }
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set):
        return [_plain(item) for item in value]
    return value
