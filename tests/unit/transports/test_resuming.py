"""Calls that are taken up again."""

import asyncio
from collections.abc import Iterator
from contextlib import aclosing
from typing import Any

import pytest

from gateway.errors import FailureError
from gateway.pb import (
    Artifact,
    GetTaskRequest,
    Message,
    Part,
    SendMessageRequest,
    SendMessageResponse,
    StreamResponse,
    SubscribeToTaskRequest,
    Task,
    TaskArtifactUpdateEvent,
    TaskStatus,
    TaskStatusUpdateEvent,
)
from tests.conftest import run
from tests.doubles.wire import ScriptedClient, Step, broken, failure, unreachable
from transports import resuming
from transports.resuming import ResumingClient

KEY = {"idempotency-key": "k", "a2a-version": "1.0"}
SEND = SendMessageRequest(message=Message(message_id="m", parts=[Part(text="x")]))


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Attempts follow at once."""
    monkeypatch.setattr(resuming, "FIRST_PAUSE", 0.001)
    monkeypatch.setattr(resuming, "LONGEST_PAUSE", 0.001)


def task(seq: int, state: str = "WORKING", text: str = "") -> tuple[int, StreamResponse]:
    """The whole task."""
    status = TaskStatus(state=f"TASK_STATE_{state}")
    artifacts = [Artifact(artifact_id="a", parts=[Part(text=text)])] if text else []
    return seq, StreamResponse(task=Task(id="t", status=status, artifacts=artifacts))


def chunk(seq: int, text: str = "x") -> Step:
    """A chunk of text."""
    artifact = Artifact(artifact_id="a", parts=[Part(text=text)])
    update = TaskArtifactUpdateEvent(task_id="t", artifact=artifact, append=True)
    return seq, StreamResponse(artifact_update=update)


def status(seq: int, state: str) -> Step:
    """A state."""
    update = TaskStatusUpdateEvent(task_id="t", status=TaskStatus(state=f"TASK_STATE_{state}"))
    return seq, StreamResponse(status_update=update)


def stream_of(
    client: ScriptedClient,
    method: str = "SendStreamingMessage",
    metadata: dict[str, str] | None = None,
    patience: float = 5.0,
) -> list[Any]:
    """What a caller gets of a stream; how it fails, at the end."""

    async def main() -> list[Any]:
        calls = ResumingClient(client.opener(), patience)
        request: Any = SEND if method != "SubscribeToTask" else SubscribeToTaskRequest(id="t")
        found: list[Any] = []
        try:
            async with aclosing(calls.stream(method, request, metadata)) as events:
                async for event in events:
                    found.append(event)
        except FailureError as error:
            found.append(error.failure.row.reason)
        return found

    return run(main())


class TestStreams:
    """Streams that break."""

    def test_goes_on_after_the_last_number(self) -> None:
        """S71, S72: by SubscribeToTask, as often as it takes; no event is lost, none comes twice,
        and the key of the send does not travel on."""
        client = ScriptedClient(
            [
                [task(1), chunk(2), broken()],
                [chunk(2), chunk(3), broken()],
                [unreachable()],
                [chunk(4), status(5, "COMPLETED")],
            ]
        )
        found = stream_of(client, metadata=KEY)
        assert [seq for seq, _ in found] == [1, 2, 3, 4, 5]
        assert [call.method for call in client.calls] == [
            "SendStreamingMessage",
            *["SubscribeToTask"] * 3,
        ]
        assert [call.request.id for call in client.calls[1:]] == ["t"] * 3
        assert [call.metadata for call in client.calls[1:]] == [
            {"a2a-version": "1.0", "last-event-id": n} for n in ("2", "3", "3")
        ]

    def test_without_numbers_the_whole_task_comes(self) -> None:
        """S72: a wire that shows no numbers gives the task as it stands, then what follows."""
        client = ScriptedClient(
            [
                [task(0), chunk(0, "a"), broken()],
                [task(0, text="ab"), chunk(0, "c"), status(0, "COMPLETED")],
            ]
        )
        found = stream_of(client)
        assert [event.WhichOneof("payload") for _, event in found] == [
            "task",
            "artifact_update",
            "task",
            "artifact_update",
            "status_update",
        ]
        assert "last-event-id" not in client.calls[1].metadata

    def test_a_task_that_ended_meanwhile(self) -> None:
        """S162: it cannot be followed any more, so it is read."""

        def read(call: Any) -> Task:
            assert call.method == "GetTask"
            return task(0, "COMPLETED", "all")[1].task

        client = ScriptedClient(
            [[task(0), broken()], [failure("UNSUPPORTED_OPERATION", "has ended")]], read
        )
        found = stream_of(client)
        assert found[-1][1].task.artifacts[0].parts[0].text == "all"

    @pytest.mark.parametrize("state", ["COMPLETED", "FAILED", "INPUT_REQUIRED", "AUTH_REQUIRED"])
    def test_a_cut_behind_the_end(self, state: str) -> None:
        """S162: nothing can follow, so nothing is asked for."""
        client = ScriptedClient([[task(1), status(2, state), broken()]])
        assert len(stream_of(client)) == 2
        assert len(client.calls) == 1

    def test_a_resumed_send_ends_with_its_turn(self) -> None:
        """A subscription would stay open while the task waits for its client."""
        client = ScriptedClient([[task(1), broken()], [status(2, "INPUT_REQUIRED"), chunk(3)]])
        assert [seq for seq, _ in stream_of(client)] == [1, 2]

    def test_an_end_that_comes_too_early(self) -> None:
        """S71: a proxy may end a stream in order; its task is followed nevertheless."""
        client = ScriptedClient([[task(1), chunk(2)], [chunk(3)], [status(4, "COMPLETED")]])
        assert [seq for seq, _ in stream_of(client)] == [1, 2, 3, 4]
        assert client.calls[-1].metadata["last-event-id"] == "3"

    def test_a_server_that_always_ends_too_early(self) -> None:
        """One that cannot go on has said all it can; one that only repeats itself makes no
        progress; and nobody who wants plain calls gets others."""
        client = ScriptedClient([[task(0), chunk(0)], [failure("METHOD_NOT_FOUND")]])
        assert len(stream_of(client)) == 2
        client = ScriptedClient([task(0)] for _ in range(100_000))
        assert stream_of(client, patience=0.05)[-1] == "UNAVAILABLE"
        client = ScriptedClient([[task(0)]])
        assert len(stream_of(client, patience=0.0)) == 1
        assert len(client.calls) == 1

    def test_an_empty_stream(self) -> None:
        """It is no answer to a message."""
        assert stream_of(ScriptedClient([[]]), metadata=KEY) == ["INVALID_AGENT_RESPONSE"]

    def test_a_follow_up_begins_with_a_task_that_waits(self) -> None:
        """S68: for the very message that was sent; a cut behind it is no end. What comes after an
        interruption shows that the turn goes on."""
        client = ScriptedClient(
            [
                [task(4, "INPUT_REQUIRED"), broken()],
                [status(5, "WORKING"), broken()],
                [chunk(6), status(7, "COMPLETED")],
            ]
        )
        assert [seq for seq, _ in stream_of(client)] == [4, 5, 6, 7]
        client = ScriptedClient(
            [[task(1), status(2, "AUTH_REQUIRED"), chunk(3), broken()], [status(4, "COMPLETED")]]
        )
        assert [seq for seq, _ in stream_of(client)] == [1, 2, 3, 4]

    def test_a_subscription_goes_on_while_its_task_waits(self) -> None:
        """A2A 3.1.6: it ends with the task."""
        client = ScriptedClient(
            [[task(1, "INPUT_REQUIRED"), broken()], [chunk(2), status(3, "COMPLETED")]]
        )
        found = stream_of(client, "SubscribeToTask")
        assert [seq for seq, _ in found] == [1, 2, 3]

    def test_a_direct_message(self) -> None:
        """It is the whole answer."""
        message = StreamResponse(message=Message(message_id="m"))
        client = ScriptedClient([[(0, message), broken()]])
        assert stream_of(client) == [(0, message)]

    def test_a_send_that_gave_nothing_is_repeated_under_its_key(self) -> None:
        """S112: with a key the server carries it out once."""
        client = ScriptedClient([[broken()], [task(1), status(2, "COMPLETED")]])
        assert [seq for seq, _ in stream_of(client, metadata=KEY)] == [1, 2]
        assert client.calls[0] == client.calls[1]

    def test_a_send_without_a_key_is_not_repeated(self) -> None:
        """Nobody knows whether it was carried out."""
        client = ScriptedClient([[broken()]])
        assert stream_of(client) == ["UNAVAILABLE"]
        assert len(client.calls) == 1

    def test_patience_ends(self) -> None:
        """The caller is told what went wrong last; progress begins it anew."""

        def streams() -> Iterator[list[Step]]:
            for number in range(1, 4):
                yield [task(number), broken()]
            while True:
                yield [unreachable()]

        client = ScriptedClient(streams())
        found = stream_of(client, patience=0.05)
        assert [seq for seq, _ in found[:-1]] == [1, 2, 3]
        assert found[-1] == "UNAVAILABLE"
        assert len(client.calls) > 4

    @pytest.mark.parametrize("reason", ["TASK_NOT_FOUND", "INTERNAL_ERROR", "INVALID_PARAMS"])
    def test_other_failures_are_final(self, reason: str) -> None:
        """What the agent answers is an answer."""
        client = ScriptedClient([[task(1), failure(reason)]])
        assert stream_of(client, metadata=KEY)[-1] == reason

    def test_leaving_closes_the_stream_below(self) -> None:
        """Closing gives the call up."""
        closed = asyncio.Event()

        class Endless(ScriptedClient):
            async def stream(self, *arguments: Any, **more: Any) -> Any:
                try:
                    yield task(1)
                    await asyncio.Event().wait()
                finally:
                    closed.set()

        async def main() -> None:
            calls = ResumingClient(Endless().opener())
            async with aclosing(calls.stream("SendStreamingMessage", SEND)) as events:
                await anext(events)
            assert closed.is_set()

        run(main())


class TestUnary:
    """Unary calls that break."""

    def ask(self, client: ScriptedClient, method: str, **options: Any) -> Any:
        async def main() -> Any:
            calls = ResumingClient(client.opener(), options.pop("patience", 5.0))
            request: Any = SEND if method == "SendMessage" else GetTaskRequest(id="t")
            try:
                return await calls.unary(method, request, **options)
            except FailureError as error:
                return error.failure.row.reason

        return run(main())

    def fails_first(self, times: int, error: FailureError) -> ScriptedClient:
        left = [error] * times

        def answer(call: Any) -> Any:
            if left:
                raise left.pop()
            return Task(id="t") if call.method == "GetTask" else SendMessageResponse()

        return ScriptedClient(on_unary=answer)

    def test_a_read_is_repeated(self) -> None:
        """It changes nothing."""
        client = self.fails_first(2, broken())
        assert self.ask(client, "GetTask") == Task(id="t")
        assert len(client.calls) == 3

    def test_a_send_with_a_key_is_repeated(self) -> None:
        """S112: the same message under the same key."""
        client = self.fails_first(2, broken())
        assert self.ask(client, "SendMessage", metadata=KEY) == SendMessageResponse()
        assert {call.metadata["idempotency-key"] for call in client.calls} == {"k"}

    def test_a_send_without_a_key_is_not(self) -> None:
        """It might be carried out twice."""
        client = self.fails_first(1, broken())
        assert self.ask(client, "SendMessage") == "UNAVAILABLE"
        assert len(client.calls) == 1

    def test_what_did_nothing_is_repeated(self) -> None:
        """A server at its limit says when; so it may be a send without a key."""
        client = self.fails_first(1, failure("RESOURCE_EXHAUSTED", retry_after=0.01))
        assert self.ask(client, "SendMessage") == SendMessageResponse()

    def test_who_was_never_there_is_not_waited_for(self) -> None:
        """A wrong address is told at once."""
        client = self.fails_first(1, unreachable())
        assert self.ask(client, "GetTask") == "UNAVAILABLE"
        assert len(client.calls) == 1

    def test_a_server_that_restarts_is_waited_for(self) -> None:
        """Broken first, then not there, then back."""
        errors = [broken(), unreachable(), unreachable()]

        def answer(call: Any) -> Any:
            if errors:
                raise errors.pop(0)
            return Task(id="t")

        client = ScriptedClient(on_unary=answer)
        assert self.ask(client, "GetTask") == Task(id="t")

    def test_who_only_breaks_connections(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """It may want TLS, say: then no patience helps."""
        monkeypatch.setattr(resuming, "DOUBT", 0.02)
        client = self.fails_first(10**5, broken())
        assert self.ask(client, "GetTask", patience=1000.0) == "UNAVAILABLE"
        assert len(client.calls) > 1

    def test_no_patience(self) -> None:
        """0: each call once."""
        client = self.fails_first(1, broken())
        assert self.ask(client, "GetTask", patience=0.0) == "UNAVAILABLE"

    def test_the_deadline_holds_for_all_attempts(self) -> None:
        """Each attempt gets what is left."""
        client = self.fails_first(2, broken())
        self.ask(client, "GetTask", timeout=10.0)
        left = [call.timeout for call in client.calls]
        assert left == sorted(left, reverse=True)  # type: ignore[type-var]
        assert left[-1] != left[0]

    def test_a_lost_client_is_opened_anew(self) -> None:
        """A program that ended cannot be asked again; another one can."""
        first, second = self.fails_first(0, broken()), self.fails_first(0, broken())
        clients = [first, second]

        async def main() -> None:
            async def open() -> ScriptedClient:
                return clients.pop(0)

            calls = ResumingClient(open)
            await calls.unary("GetTask", GetTaskRequest(id="t"))
            first.is_lost = True
            await calls.unary("GetTask", GetTaskRequest(id="t"))
            assert (len(first.calls), len(second.calls)) == (1, 1)
            await calls.aclose()
            assert first.is_closed
            assert second.is_closed

        run(main())
