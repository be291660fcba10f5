"""What a program gets and prints, without any program."""

import json
import logging

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.agents.command.errors import FIRST_BYTES, LINE_BYTES, ErrorLog
from gateway.agents.command.given import to_line, to_text
from gateway.agents.command.output import EventOutput, TextOutput, describe
from gateway.call import Call
from gateway.pb import Part, Task, TaskArtifactUpdateEvent, Value
from tests.conftest import run
from tests.doubles.recording import RecordingTurn


def test_parts_as_text() -> None:
    data = Value()
    data.struct_value.update({"Ä": [1, None]})
    turn = RecordingTurn("one", Part(data=data), Part(url="https://a.example/b.pdf"))
    assert to_text(turn).decode() == 'one\n{"Ä": [1, null]}\nhttps://a.example/b.pdf\n'
    assert to_text(RecordingTurn("ended\n")) == b"ended\n"


def test_a_turn_as_a_line() -> None:
    """All that an agent behind gRPC gets; no credentials."""
    call = Call("http", {"authorization": "secret-123", "traceparent": "00-1"}, caller="alice")
    task = Task(id="task-1", context_id="context-1")
    turn = RecordingTurn("one\ntwo", task=task, call=call)
    line = to_line(turn, frozenset({"authorization"}))
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    request = json.loads(line)
    assert request["request"]["message"]["parts"] == [{"text": "one\ntwo"}]
    assert request["task"]["id"] == request["taskId"] == "task-1"
    assert request["call"]["caller"] == "alice"
    assert request["call"]["metadata"] == {"traceparent": "00-1"}


@settings(max_examples=50)
@given(st.text(), st.lists(st.integers(1, 5), min_size=1))
def test_text_is_whole_wherever_it_is_cut(text: str, sizes: list[int]) -> None:
    async def main() -> None:
        turn = RecordingTurn("hi")
        output = TextOutput(turn, None)
        data, number = text.encode("utf-8", "ignore"), 0
        while data:
            size = sizes[number % len(sizes)]
            await output.feed(data[:size])
            data, number = data[size:], number + 1
        await output.finish(0)
        assert turn.text == text.encode("utf-8", "ignore").decode()
        updates = [e for e in turn.events if isinstance(e, TaskArtifactUpdateEvent)]
        assert len({update.artifact.artifact_id for update in updates}) == bool(turn.text)

    run(main())


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_events_are_whole_wherever_they_are_cut(size: int) -> None:
    lines = b"".join(
        json.dumps({"artifactUpdate": {"artifact": {"artifactId": "a", "parts": [{"text": t}]}}})
        .encode() + b"\n"
        for t in ("one", "zwö", "three")
    )  # fmt: skip

    async def main() -> None:
        turn = RecordingTurn("hi")
        output = EventOutput(turn)
        for at in range(0, len(lines), size):
            await output.feed(lines[at : at + size])
        await output.finish(0)
        assert [part.text for part in turn.parts] == ["one", "zwö", "three"]
        assert turn.states == ["WORKING", "COMPLETED"]

    run(main())


def test_the_question_is_the_last_line() -> None:
    async def main() -> None:
        turn = RecordingTurn("hi")
        output = TextOutput(turn, 10)
        for piece in (b"x" * 9000, b"\nWhich ", b"colour?\n", b"\n"):
            await output.feed(piece)
        await output.finish(10)
        assert turn.last_words == "Which colour?"

    run(main())


def test_signals_have_names() -> None:
    assert describe(-11) == "The agent was ended by SIGSEGV"
    assert describe(-99) == "The agent was ended by signal 99"


def test_stderr_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    log = ErrorLog("pizza")
    for piece in (b"fir", b"st\nsec", b"ond\r\n\nthird"):
        log.feed(piece)
    log.end("ended with exit code 1")
    assert [record.getMessage() for record in caplog.records] == [
        "agent pizza: first",
        "agent pizza: second",
        "agent pizza: third",
        "agent pizza: ended with exit code 1",
    ]


def test_a_line_without_end(caplog: pytest.LogCaptureFixture) -> None:
    """Logged in pieces, then not at all, but for its end; the memory is bounded."""
    caplog.set_level(logging.INFO)
    log = ErrorLog("pizza")
    for _ in range(100):
        log.feed(b"x" * 10_000)
    log.feed(b"the end")
    log.end("")
    size = sum(len(record.getMessage()) for record in caplog.records)
    assert size < 1.2 * (FIRST_BYTES + LINE_BYTES + 10_000)
    assert "are left out" in caplog.text
    assert "the end" in caplog.text
