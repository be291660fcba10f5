"""Makes services over the scripted runtime, and requests for them."""

import asyncio
from collections.abc import Callable
from typing import Any

from gateway.access import Access, AccessOptions, Credential
from gateway.call import Call
from gateway.card import Card, CardOptions
from gateway.pb import METHODS, Message, Part, Role, SendMessageRequest
from gateway.service import Service, ServiceOptions
from tests.conftest import run
from tests.doubles.runtime import ScriptedRuntime

ALICE = {"authorization": "Bearer alice-token"}
BOB = {"authorization": "Bearer bob-token"}


def make_access() -> Access:
    """Alice and Bob, by bearer token."""
    return Access(
        AccessOptions(tokens=(Credential("alice", "alice-token"), Credential("bob", "bob-token")))
    )


def make_service(
    runtime: ScriptedRuntime | None = None,
    card: dict[str, Any] | None = None,
    access: Access | None = None,
    **others: Any,
) -> Service:
    """A service with a card of the given fields."""
    if "options" not in others:
        others["options"] = ServiceOptions()
    built = Card(CardOptions(source=card), access)
    return Service(runtime or ScriptedRuntime(), built, access, **others)


def make_call(version: str = "1.0", **fields: Any) -> Call:
    """A call of version 1.0."""
    return Call("test", version=version, **fields)


def make_send(*parts: Part, **fields: Any) -> SendMessageRequest:
    """The smallest good message, or one with the given parts and message fields."""
    values: dict[str, Any] = {"message_id": "m1", "role": Role.ROLE_USER, **fields}
    return SendMessageRequest(message=Message(parts=parts or [Part(text="hi")], **values))


def serve(service: Service, name: str, request: Any, call: Call | None = None) -> Any:
    """Run any operation on a loop of its own: its answer, or the first batch of its stream."""
    return run(serve_first(service, name, request, call or make_call()))


async def serve_first(service: Service, name: str, request: Any, call: Call) -> Any:
    """As `serve`, in the loop that runs."""
    if not METHODS[name].streaming:
        return await service.unary(name, request, call)
    events = service.stream(name, request, call)
    try:
        return await anext(events)
    finally:
        await events.aclose()


async def eventually(is_so: Callable[[], bool]) -> None:
    """Wait for what happens in a server's own tasks; a test that hangs is ended by `run`."""
    while True:
        if is_so():
            return
        await asyncio.sleep(0.005)
