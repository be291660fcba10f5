"""The SDK's own Python client completes a dialogue with the gateway over each standard binding.

R2, R3, R5, R10, R41; S41, S42, S48, S63, S66-S69, S73, S75-S82, S99, S109. The gateway runs as
its users run it: core and adapter as processes, addresses read from its card.
"""

import uuid
from collections.abc import AsyncGenerator, Callable
from typing import Any, cast

import grpc
import pytest
from a2a.client import Client, ClientCallContext, ClientConfig, ClientFactory
from a2a.types import (
    CancelTaskRequest,
    GetExtendedAgentCardRequest,
    GetTaskRequest,
    ListTasksRequest,
    Role,
    StreamResponse,
    SubscribeToTaskRequest,
    Task,
    TaskPushNotificationConfig,
    TaskState,
)
from a2a.utils import errors as sdk

from tests.conftest import run
from tests.interop.conftest import REQUIRED_EXTENSION
from tests.interop.python_sdk import (
    BINDINGS,
    at_once,
    connect,
    kinds,
    read_card,
    request,
    send,
    texts,
)
from tests.processes import Addresses

pytestmark = pytest.mark.parametrize("binding", BINDINGS)


def test_the_card_leads_to_the_binding(dialogue: Addresses, binding: str) -> None:
    """S1, S3, S16, R3, R4: the resolver finds an entry for the binding, version 1.0."""

    async def body() -> None:
        async with connect(dialogue, binding) as client:
            card = await read_card(dialogue)
            entries = [i for i in card.supported_interfaces if i.protocol_binding == binding]
            assert [entry.protocol_version for entry in entries] == ["1.0"]
            assert card.capabilities.streaming
            assert not card.capabilities.push_notifications
            assert not card.capabilities.extended_agent_card
            # an SDK client without an extended card to fetch answers with the one it has
            same = await client.get_extended_agent_card(GetExtendedAgentCardRequest())
            assert same == card

    run(body())


def test_blocking_send_returns_the_finished_task(dialogue: Addresses, binding: str) -> None:
    """S48, S63, S64, S101, R19."""

    async def body() -> None:
        async with connect(dialogue, binding, streaming=False) as client:
            answer = await send(client, request("hello"))
            assert answer.task.status.state == TaskState.TASK_STATE_COMPLETED
            assert texts(answer.task) == ["Hello, hello!"]
            assert answer.task.id
            assert answer.task.context_id
            history = answer.task.history[0]
            assert history.task_id == answer.task.id
            assert history.context_id == answer.task.context_id

    run(body())


def test_a_direct_message_is_the_whole_answer(dialogue: Addresses, binding: str) -> None:
    """S63, R17: one Message, no task, unary and streamed."""

    async def body() -> None:
        for streaming in (False, True):
            async with connect(dialogue, binding, streaming=streaming) as client:
                answer = await send(client, request("direct"))
                assert answer.message.role == Role.ROLE_AGENT
                assert answer.message.parts[0].text == "a direct answer"

    run(body())


def test_a_stream_starts_with_the_task_and_brings_all_chunks(
    dialogue: Addresses, binding: str
) -> None:
    """S66-S69, S84, R16, R17."""

    async def body() -> None:
        async with connect(dialogue, binding) as client:
            events = [event async for event in client.send_message(request("count 20"))]
            assert events[0].WhichOneof("payload") == "task"
            chunks = [e.artifact_update for e in events if e.HasField("artifact_update")]
            assert [c.artifact.parts[0].text for c in chunks] == [f"{n} " for n in range(20)]
            assert [c.append for c in chunks] == [False] + [True] * 19
            assert [c.last_chunk for c in chunks] == [False] * 19 + [True]
            assert {c.task_id for c in chunks} == {events[0].task.id}
            assert {c.context_id for c in chunks} == {events[0].task.context_id}
            assert events[-1].status_update.status.state == TaskState.TASK_STATE_COMPLETED
            stored = await client.get_task(GetTaskRequest(id=events[0].task.id))
            assert "".join(texts(stored)) == "".join(f"{n} " for n in range(20))

    run(body())


@pytest.mark.parametrize("streaming", [False, True])
def test_a_follow_up_continues_the_task(dialogue: Addresses, binding: str, streaming: bool) -> None:
    """S99, R22, LC03, and conformance 5: same task, same context, also with only the task's id."""

    async def body() -> None:
        async with connect(dialogue, binding, streaming=streaming) as client:
            first = [e async for e in client.send_message(request("ask"))]
            task = first[0].task
            last = first[-1].task if len(first) == 1 else first[-1].status_update
            assert last.status.state == TaskState.TASK_STATE_INPUT_REQUIRED
            assert last.status.message.parts[0].text == "Which colour?"
            second = [e async for e in client.send_message(request("blue", task_id=task.id))]
            assert second[0].WhichOneof("payload") == "task"
            assert second[0].task.id == task.id
            places = {
                (e.status_update.task_id, e.status_update.context_id)
                for e in second
                if e.HasField("status_update")
            }
            assert places <= {(task.id, task.context_id)}
            done = await client.get_task(GetTaskRequest(id=task.id))
            assert done.status.state == TaskState.TASK_STATE_COMPLETED
            assert done.context_id == task.context_id
            assert texts(done) == ["The colour is blue."]
            said = [p.text for m in done.history for p in m.parts]
            assert [t for t in said if t in ("ask", "Which colour?", "blue")] == [
                "ask",
                "Which colour?",
                "blue",
            ]

    run(body())


def test_get_trims_the_history_on_demand(dialogue: Addresses, binding: str) -> None:
    """S75, R20: at most n, none for 0, and nothing is lost in the store."""

    async def body() -> None:
        async with connect(dialogue, binding, streaming=False) as client:
            task = (await send(client, request("ask"))).task
            await send(client, request("red", task_id=task.id))
            whole = await client.get_task(GetTaskRequest(id=task.id))
            one = await client.get_task(GetTaskRequest(id=task.id, history_length=1))
            none = await client.get_task(GetTaskRequest(id=task.id, history_length=0))
            assert len(whole.history) > 1
            assert list(one.history) == [whole.history[-1]]
            assert not none.history

    run(body())


def test_list_pages_through_a_context(dialogue: Addresses, binding: str) -> None:
    """S76-S80, R21: newest first, pages that join without gap or repeat, artifacts on demand."""

    async def body() -> None:
        async with connect(dialogue, binding, streaming=False) as client:
            first = (await send(client, request("hello"))).task
            more = [
                (await send(client, request("hello", context_id=first.context_id))).task
                for _ in range(4)
            ]
            expected = [task.id for task in reversed([first, *more])]
            found: list[Task] = []
            query = ListTasksRequest(context_id=first.context_id, page_size=2)
            for left in (True, True, False):
                page = await client.list_tasks(query)
                assert page.total_size == 5
                assert page.page_size == 2
                assert bool(page.next_page_token) is left
                found += page.tasks
                query.page_token = page.next_page_token
            assert [task.id for task in found] == expected
            assert not any(task.artifacts for task in found)
            rich = await client.list_tasks(
                ListTasksRequest(context_id=first.context_id, include_artifacts=True)
            )
            assert [texts(task) for task in rich.tasks] == [["Hello, hello!"]] * 5
            running = await client.list_tasks(
                ListTasksRequest(context_id=first.context_id, status=TaskState.TASK_STATE_WORKING)
            )
            assert list(running.tasks) == []

    run(body())


def test_cancel_reaches_the_agent(dialogue: Addresses, binding: str) -> None:
    """S64, S81, ST04: an immediate answer, then a cancel, then the same cancelled task again."""

    async def body() -> None:
        async with connect(dialogue, binding, streaming=False) as client:
            task = (await send(client, at_once("wait"))).task
            assert task.status.state in (
                TaskState.TASK_STATE_SUBMITTED,
                TaskState.TASK_STATE_WORKING,
            )
            canceled = await client.cancel_task(CancelTaskRequest(id=task.id))
            assert canceled.id == task.id
            assert canceled.status.state == TaskState.TASK_STATE_CANCELED
            assert canceled.status.message.parts[0].text == "stopped"
            again = await client.cancel_task(CancelTaskRequest(id=task.id))
            assert again.status == canceled.status

    run(body())


def test_subscribers_get_the_task_and_then_the_same_events(
    dialogue: Addresses, binding: str
) -> None:
    """S71, S73, R16, R18: two subscribers, one that left before, equal events to the end."""
    gate = uuid.uuid4().hex

    async def body() -> None:
        async with (
            connect(dialogue, binding, streaming=False) as sender,
            connect(dialogue, binding) as client,
        ):
            task = (await send(sender, at_once(f"later {gate}"))).task
            subscribe = SubscribeToTaskRequest(id=task.id)
            leaver = client.subscribe(subscribe)
            assert (await anext(leaver)).task.id == task.id
            await cast("AsyncGenerator[StreamResponse]", leaver).aclose()
            readers = [client.subscribe(subscribe) for _ in range(2)]
            for reader in readers:
                assert (await anext(reader)).task.id == task.id
            await send(sender, request(f"release {gate}"))
            seen = [[event async for event in reader] for reader in readers]
            assert seen[0] == seen[1]
            ends = seen[0][-1].status_update.status.state
            assert ends == TaskState.TASK_STATE_COMPLETED
            assert kinds(seen[0]).count("artifact_update") == 3

    run(body())


def test_rejection_and_crash_are_states_of_the_task(dialogue: Addresses, binding: str) -> None:
    """S98, S176: REJECTED passes; a crash is FAILED, and its text stays inside."""

    async def body() -> None:
        async with connect(dialogue, binding, streaming=False) as client:
            rejected = (await send(client, request("reject"))).task
            assert rejected.status.state == TaskState.TASK_STATE_REJECTED
            crashed = (await send(client, request("crash"))).task
            assert crashed.status.state == TaskState.TASK_STATE_FAILED
            assert "secret-123" not in str(crashed)

    run(body())


async def _get_unknown(client: Client) -> None:
    await client.get_task(GetTaskRequest(id="no-such-task"))


async def _send_to_unknown(client: Client) -> None:
    await send(client, request("hello", task_id="no-such-task"))


async def _cancel_finished(client: Client) -> None:
    task = (await send(client, request("hello"))).task
    await client.cancel_task(CancelTaskRequest(id=task.id))


async def _send_to_finished(client: Client) -> None:
    task = (await send(client, request("hello"))).task
    await send(client, request("more", task_id=task.id))


async def _create_push_config(client: Client) -> None:
    task = (await send(client, request("hello"))).task
    await client.create_task_push_notification_config(
        TaskPushNotificationConfig(task_id=task.id, url="https://example.com/hook")
    )


async def _get_extended_card(client: Client) -> None:
    await client.get_extended_agent_card(GetExtendedAgentCardRequest())


async def _send_unsupported_part(client: Client) -> None:
    made = request("hello")
    made.message.parts[0].media_type = "application/x-nobody-takes-this"
    await send(client, made)


async def _send_without_parts(client: Client) -> None:
    made = request("hello")
    del made.message.parts[:]
    await send(client, made)


async def _send_into_other_context(client: Client) -> None:
    task = (await send(client, request("ask"))).task
    await send(client, request("blue", task_id=task.id, context_id="another-context"))


async def _list_too_many(client: Client) -> None:
    await client.list_tasks(ListTasksRequest(page_size=101))


async def _speak_version_99(client: Client) -> None:
    context = ClientCallContext(service_parameters={"A2A-Version": "99.0"})
    await client.get_task(GetTaskRequest(id="any"), context=context)


@pytest.mark.parametrize(
    ("act", "error"),
    [
        (_get_unknown, sdk.TaskNotFoundError),
        (_send_to_unknown, sdk.TaskNotFoundError),
        (_cancel_finished, sdk.TaskNotCancelableError),
        (_send_to_finished, sdk.UnsupportedOperationError),
        (_create_push_config, sdk.PushNotificationNotSupportedError),
        (_get_extended_card, sdk.UnsupportedOperationError),
        (_send_unsupported_part, sdk.ContentTypeNotSupportedError),
        (_send_without_parts, sdk.InvalidParamsError),
        (_send_into_other_context, sdk.InvalidParamsError),
        (_list_too_many, sdk.InvalidParamsError),
        (_speak_version_99, sdk.VersionNotSupportedError),
    ],
)
def test_the_sdk_raises_the_class_of_the_error(
    dialogue: Addresses, binding: str, act: Callable[[Client], Any], error: type[Exception]
) -> None:
    """R12, R13, R41 (and R20-R23, LC01, LC09, HP03): each row of the table by its class."""

    async def body() -> None:
        card = await read_card(dialogue)
        # the client asks for what a card does not offer only if it believes that it does
        card.capabilities.extended_agent_card = True
        async with connect(dialogue, binding, card, streaming=False) as client:
            with pytest.raises(error) as raised:
                await act(client)
            assert type(raised.value) is error

    run(body())


def test_a_refused_stream_raises_the_class_of_the_error(dialogue: Addresses, binding: str) -> None:
    """S109, R18, R41, ST05: streams that are refused fail like unary calls, with no event."""

    async def body() -> None:
        async with connect(dialogue, binding) as client:
            with pytest.raises(sdk.TaskNotFoundError):
                await anext(client.send_message(request("hello", task_id="no-such-task")))
            with pytest.raises(sdk.TaskNotFoundError):
                await anext(client.subscribe(SubscribeToTaskRequest(id="no-such-task")))
            events = [event async for event in client.send_message(request("hello"))]
            with pytest.raises(sdk.UnsupportedOperationError):
                await anext(client.subscribe(SubscribeToTaskRequest(id=events[0].task.id)))

    run(body())


def test_a_required_extension_is_asked_for(extended: Addresses, binding: str) -> None:
    """S127, R13, R15: refused without the header, served with it."""

    async def body() -> None:
        async with connect(extended, binding, streaming=False) as client:
            with pytest.raises(sdk.ExtensionSupportRequiredError):
                await send(client, request("hello"))
            context = ClientCallContext(service_parameters={"A2A-Extensions": REQUIRED_EXTENSION})
            answers = [a async for a in client.send_message(request("hello"), context=context)]
            assert answers[0].task.status.state == TaskState.TASK_STATE_COMPLETED

    run(body())


def test_a_card_fetched_once_serves_all_bindings(dialogue: Addresses, binding: str) -> None:
    """R4, S22: one card, made into a client for the binding that the client prefers."""

    async def body() -> None:
        card = await read_card(dialogue)
        config = ClientConfig(
            supported_protocol_bindings=[binding, *BINDINGS],
            use_client_preference=True,
            streaming=False,
            grpc_channel_factory=grpc.aio.insecure_channel,
        )
        async with ClientFactory(config).create(card) as client:
            assert (await send(client, request("hello"))).HasField("task")

    run(body())
