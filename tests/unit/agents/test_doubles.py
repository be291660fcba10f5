"""The test doubles do what the cases and the conformance kit expect of them."""

import asyncio
import re
from pathlib import Path

import pytest
from a2a.utils.errors import ContentTypeNotSupportedError

from gateway.agents import Agent
from gateway.agents.loader import load
from gateway.pb import Message, Part, Role, Task, TaskArtifactUpdateEvent, TaskState, TaskStatus
from tests.conftest import run
from tests.doubles import agents, tck_agent
from tests.doubles.recording import RecordingTurn, run_once


@pytest.fixture
def double() -> Agent:
    return load("tests.doubles.agents:agent")


def waiting(*texts: str) -> Task:
    """A task that waits for input after these messages."""
    return Task(
        id="task-1",
        context_id="context-1",
        status=TaskStatus(state=TaskState.TASK_STATE_INPUT_REQUIRED),
        history=[
            Message(message_id=f"h{i}", role=Role.ROLE_USER, parts=[Part(text=text)])
            for i, text in enumerate(texts)
        ],
    )


@pytest.mark.parametrize(
    ("text", "states"),
    [
        ("anything", ["SUBMITTED", "COMPLETED"]),
        ("echo hi", ["SUBMITTED", "COMPLETED"]),
        ("slow 3 0", ["SUBMITTED", "WORKING", "COMPLETED"]),
        ("burst 10 100", ["SUBMITTED", "WORKING", "COMPLETED"]),
        ("silent 0", ["COMPLETED"]),
        ("ask", ["SUBMITTED", "INPUT_REQUIRED"]),
        ("three", ["SUBMITTED", "INPUT_REQUIRED"]),
        ("bare", ["SUBMITTED", "INPUT_REQUIRED"]),
        ("auth", ["SUBMITTED", "AUTH_REQUIRED"]),
        ("auth-wait 0", ["SUBMITTED", "AUTH_REQUIRED", "COMPLETED"]),
        ("reject", ["SUBMITTED", "REJECTED"]),
        ("big 1", ["SUBMITTED", "COMPLETED"]),
        ("dump", ["SUBMITTED", "COMPLETED"]),
        ("values", ["SUBMITTED", "COMPLETED"]),
        ("late 0", ["COMPLETED", "WORKING", "FAILED"]),
        ("foreign", ["WORKING"]),
        ("block 0", ["SUBMITTED", "WORKING", "COMPLETED"]),
        ("stubborn 0", ["SUBMITTED", "WORKING", "COMPLETED"]),
        ("print", ["SUBMITTED", "COMPLETED"]),
    ],
)
def test_commands(double: Agent, text: str, states: list[str]) -> None:
    assert run(run_once(double, RecordingTurn(text))).states == states


def test_every_command_is_described() -> None:
    described = re.findall(r"^    (\S+) ", agents.__doc__ or "", re.MULTILINE)
    assert set(described) == set(agents.COMMANDS) | {"message"}


def test_chunks_are_one_artifact(double: Agent) -> None:
    turn = run(run_once(double, RecordingTurn("slow 3 0")))
    chunks = [e for e in turn.events if isinstance(e, TaskArtifactUpdateEvent)]
    assert [c.append for c in chunks] == [False, True, True]
    assert [c.last_chunk for c in chunks] == [False, False, True]
    assert len({c.artifact.artifact_id for c in chunks}) == 1


def test_a_direct_message(double: Agent) -> None:
    (answer,) = run(run_once(double, RecordingTurn("message hi"))).events
    assert isinstance(answer, Message)
    assert answer.parts[0].text == "hi"


@pytest.mark.parametrize("events", [0, 1, 3])
def test_raising_after_some_events(double: Agent, events: int) -> None:
    turn = RecordingTurn(f"raise {events} secret-123 in it")
    with pytest.raises(ValueError, match="secret-123 in it"):
        run(run_once(double, turn))
    assert len(turn.events) == events
    with pytest.raises(ContentTypeNotSupportedError):
        run(run_once(double, RecordingTurn(f"refuse {events}")))


@pytest.mark.parametrize(
    ("first", "states"),
    [("ask", ["COMPLETED"]), ("auth", ["COMPLETED"]), ("bare", ["COMPLETED"])],
)
def test_follow_ups(double: Agent, first: str, states: list[str]) -> None:
    turn = run(run_once(double, RecordingTurn("blue", task=waiting(first, "blue"))))
    assert turn.states == states
    assert isinstance(turn.events[-1], Task) == (first == "bare")


def test_three_turns(double: Agent) -> None:
    second = run(run_once(double, RecordingTurn("b", task=waiting("three", "b"))))
    third = run(run_once(double, RecordingTurn("c", task=waiting("three", "b", "c"))))
    assert (second.states, third.states) == (["INPUT_REQUIRED"], ["COMPLETED"])


def test_counters(double: Agent, tmp_path: Path) -> None:
    path = tmp_path / "runs"
    for _ in range(2):
        run(run_once(double, RecordingTurn(f"counter {path}")))
    assert path.read_text() == "task-1\ntask-1\n"
    run(run_once(double, RecordingTurn(f"wait {path}")))


@pytest.mark.parametrize("text", ["silent", "tick", "cancel-fails"])
def test_cancelling(double: Agent, text: str, tmp_path: Path) -> None:
    """S82/ST14: work stops where it is cancelled; `cancel` says so, or raises."""
    turn = RecordingTurn(f"{text} {tmp_path / 'ticks'}" if text == "tick" else text)

    async def main() -> None:
        task = asyncio.create_task(double.run(turn))
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run(main())
    if text == "cancel-fails":
        with pytest.raises(RuntimeError, match="secret-123"):
            run(double.cancel(turn))
    else:
        run(double.cancel(turn))
        assert turn.states[-1] == "CANCELED"


def test_stubborn_ignores_cancel(double: Agent) -> None:
    turn = RecordingTurn("stubborn 0.1")

    async def main() -> None:
        task = asyncio.create_task(double.run(turn))
        await asyncio.sleep(0.01)
        task.cancel()
        await double.cancel(turn)
        await task

    run(main())
    assert turn.states == ["SUBMITTED", "WORKING", "COMPLETED"]


TCK_ROWS = [
    ("tck-complete-task-ab12", ["COMPLETED"]),
    ("tck-input-required-ab12", ["INPUT_REQUIRED"]),
    ("tck-artifact-text-ab12", ["COMPLETED"]),
    ("tck-artifact-file-ab12", ["COMPLETED"]),
    ("tck-artifact-file-url-ab12-grpc", ["COMPLETED"]),
    ("tck-artifact-data-ab12", ["COMPLETED"]),
    ("tck-stream-001-ab12", ["WORKING", "COMPLETED"]),
    ("tck-stream-002-ab12", ["COMPLETED"]),
    ("tck-stream-003-ab12", ["WORKING", "COMPLETED"]),
    ("tck-stream-ordering-001-ab12", ["WORKING", "COMPLETED"]),
    ("tck-stream-artifact-chunked-ab12", ["WORKING", "COMPLETED"]),
    ("tck-stream-artifact-file-ab12", ["WORKING", "COMPLETED"]),
    ("tck-stream-artifact-text-ab12", ["WORKING", "COMPLETED"]),
    ("tck-reject-task-ab12", ["REJECTED"]),
    ("tck-anything-else", ["COMPLETED"]),
]


def tck(message_id: str, task: Task | None = None) -> RecordingTurn:
    turn = RecordingTurn("x", task=task)
    turn.request.message.message_id = message_id
    return run(run_once(load("tests.doubles.tck_agent:agent"), turn))


@pytest.mark.parametrize(("message_id", "states"), TCK_ROWS)
def test_the_kit_s_agent(message_id: str, states: list[str]) -> None:
    """conformance.md, 2: behaviour by the prefix of the messageId."""
    turn = tck(message_id)
    assert turn.states == ["SUBMITTED", *states]
    first = turn.events[0]
    assert isinstance(first, Task)
    assert first.status.HasField("timestamp")
    assert tck(message_id, waiting("x")).states == states


def test_the_kit_s_artifacts() -> None:
    assert tck("tck-artifact-text-1").text == "Generated text content"
    for name, content in (("file", "raw"), ("file-url", "url")):
        (part,) = tck(f"tck-artifact-{name}-1").parts
        assert part.WhichOneof("content") == content
        assert (part.filename, part.media_type) == ("output.txt", "text/plain")
    (part,) = tck("tck-artifact-data-1").parts
    fields = part.data.struct_value.fields
    assert (fields["key"].string_value, fields["count"].number_value) == ("value", 42)


def test_the_kit_s_direct_message() -> None:
    (answer,) = tck("tck-message-response-1").events
    assert isinstance(answer, Message)
    assert answer.parts[0].text == "Direct message response"


def test_the_longest_prefix_wins() -> None:
    assert tck_agent.behaviour("tck-artifact-file-url-1") is tck_agent.link_artifact
    assert tck_agent.behaviour("tck-artifact-file-1") is tck_agent.file_artifact
