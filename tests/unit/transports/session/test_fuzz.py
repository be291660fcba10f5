"""Sessions that are sent anything, in any order, cut anywhere."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from itertools import pairwise
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.call import Call
from gateway.errors import TaskNotFoundError
from tests.conftest import run
from tests.doubles.core import FakeCore
from tests.unit.transports.session.joined import MESSAGE, Pipe, Wire, echo, event, request
from transports.framing import Framing, encode
from transports.session.carrier import ByteSession
from transports.session.parameters import MEMBER
from transports.session.server import Options

IDS = [1, 2, "1", "a"]
METHODS = ["GetTask", "SendStreamingMessage", "SubscribeToTask", "NoSuchMethod", "$/ping", "$/odd"]
PARAMS: list[Any] = [
    {"id": "t"},
    {"id": "fails"},
    {"id": "waits"},
    {"message": MESSAGE},
    {"id": "t", "partialResultToken": "token"},
    {"id": "t", "partialResultToken": {}},
    {"id": "t", MEMBER: {"a2a-version": "1.0", "x": None}},
    {"id": "t", MEMBER: {"a2a-version": 1}},
    {},
    [],
    None,
    5,
]
GARBAGE = st.sampled_from(
    [
        b"",
        b"{",
        b"\xff",
        b"[]",
        b"null",
        b'"text"',
        b'{"jsonrpc":"2.0","id":{},"method":"GetTask"}',
        b'{"jsonrpc":"2.0","id":3}',
        b'{"jsonrpc":"2.0","id":3,"result":1}',
        b'{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":[1]}}',
        b'{"jsonrpc":"2.0","method":"$/initialize","params":{"streams":[]}}',
        b'{"jsonrpc":"2.0","method":"$/initialize","params":{"streams":"notifications"}}',
        b'{"cancelStream":true}',
    ]
)


async def unary(method: str, message: Any, call: Call) -> Any:
    if message.id == "fails":
        raise TaskNotFoundError
    if message.id == "waits":
        await asyncio.sleep(0.001)
    return await echo(method, message, call)


async def stream(method: str, message: Any, call: Call) -> AsyncIterator[list[tuple[int, bytes]]]:
    yield [(1, event("one")), (2, event("two"))]
    if method == "SubscribeToTask" and message.id == "waits":
        await asyncio.sleep(0.001)
    if method == "SubscribeToTask" and message.id == "fails":
        raise TaskNotFoundError
    yield [(3, event("three"))]


def frame(method: str, params: Any, call_id: Any) -> bytes:
    return json.dumps(request(method, params, call_id)).encode()


def cancel(call_id: Any) -> bytes:
    return frame("$/cancelRequest", {"id": call_id}, ...)


CALLS = st.builds(frame, st.sampled_from(METHODS), st.sampled_from(PARAMS), st.sampled_from(IDS))
SILENT = st.builds(frame, st.sampled_from(METHODS), st.sampled_from(PARAMS), st.just(...))
CANCELS = st.builds(cancel, st.sampled_from(IDS))


async def play(framing: Framing, frames: list[bytes], cuts: list[int]) -> list[Any]:
    """All that a session sends back, with a last ping of ours answered."""
    frames = [*frames, frame("$/ping", None, "last")]
    data = encode(framing, frames)
    up, down = Pipe(), Pipe()
    core = FakeCore(unary, stream)
    session = ByteSession(core, down.write, Options(calls=6))
    serving = asyncio.create_task(session.serve(up.read))
    places = sorted({0, len(data), *(cut % len(data) for cut in cuts)})
    for start, end in pairwise(places):
        await up.write(data[start:end])
        await asyncio.sleep(0)
    await up.end()
    await serving
    await session.drain(5, announce=False)
    assert session.open_calls == core.open_streams == core.running == 0
    await session.close()
    await down.end()
    wire, answers = Wire(up, down, framing), []
    while True:
        try:
            answers.append(await wire.next())
        except AssertionError:
            return answers


@settings(max_examples=150)
@given(
    st.sampled_from(Framing),
    st.lists(CALLS | SILENT | CANCELS | GARBAGE, max_size=25),
    st.lists(st.integers(0, 10_000), max_size=4),
)
def test_anything(framing: Framing, frames: list[bytes], cuts: list[int]) -> None:
    """Each request has exactly one end, whatever else is sent; every answer is JSON-RPC; the
    session lives on."""
    answers = run(play(framing, frames, cuts))
    asked: Counter[str] = Counter()
    for text in frames:
        try:
            value = json.loads(text)
        except ValueError:
            continue
        if isinstance(value, dict) and value.get("id") in IDS and "method" in value:
            asked[repr(value["id"])] += 1
    ended: Counter[str] = Counter()
    refused_twice = 0
    for answer in answers:
        assert answer["jsonrpc"] == "2.0"
        assert sum(name in answer for name in ("result", "error", "streamEnd", "method")) == 1
        if "method" in answer:
            assert answer["method"] == "$/progress"
            continue
        is_end = "error" in answer or "streamEnd" in answer or "seq" not in answer
        if answer["id"] in IDS and is_end:
            ended[repr(answer["id"])] += 1
        elif "error" in answer and "under way" in answer["error"]["message"]:
            refused_twice += 1
    assert not ended - asked
    assert (asked - ended).total() == refused_twice
    assert [answer["result"] for answer in answers if answer.get("id") == "last"] == [{}]


@settings(max_examples=150)
@given(st.binary(max_size=200), st.lists(st.integers(0, 10_000), max_size=3))
def test_bytes(data: bytes, cuts: list[int]) -> None:
    """Whatever bytes come first, a line behind them is answered, or the session is in headers."""
    frames = [data.lstrip(b" \r\n\tCc\xef\xbb\xbf").replace(b"\n", b" "), b"{}"]
    answers = run(play(Framing.LINES, frames, cuts))
    assert answers[-1] == {"jsonrpc": "2.0", "id": "last", "result": {}}
    assert all("error" in answer for answer in answers[:-1])
