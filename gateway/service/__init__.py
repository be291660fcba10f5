"""A2AService: the one place where a call is judged. Native gRPC and the link both end here.

For each of the eleven operations (A2A 3.1): authenticate, check version, extensions, size and
fields, check what the card offers, call the runtime. Knows no wire; raises exceptions that doors
put through `errors.judge`.
"""

import logging
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from gateway import logs
from gateway.access import ANONYMOUS, Access
from gateway.call import Call
from gateway.card import Card, Revision
from gateway.errors import (
    A2AError,
    FailureError,
    MethodNotFoundError,
    PushNotificationNotSupportedError,
    UnsupportedOperationError,
    judge,
)
from gateway.pb import (
    METHODS,
    CancelTaskRequest,
    GetTaskRequest,
    ListTasksRequest,
    ListTasksResponse,
    ProtoMessage,
    SendMessageRequest,
    StreamResponse,
    SubscribeToTaskRequest,
    Task,
)
from gateway.service.engine import Engine
from gateway.service.paging import next_token, to_query
from gateway.service.rules import VERSION, Rules, check_version
from gateway.service.running import Running, RunningCalls
from gateway.service.validation import (
    check_history_length,
    check_id,
    check_list,
    check_send,
    check_size,
    check_tenant,
    check_values,
)
from gateway.store import LogEvent

logger = logging.getLogger(__name__)

MESSAGE_BYTES = 16 << 20

Observe = Callable[[str, str, str, float], None]
"""Told of each call that has ended: door, method, name of the gRPC code, seconds."""

StreamMoved = Callable[[str], None]
"""Told, with the door, of each stream that has given its first event, or that has ended since."""

Batch = list[LogEvent]
Unary = Callable[[Any, Call], Awaitable[ProtoMessage]]
Stream = Callable[[Any, Call], Awaitable[tuple[str, AsyncIterator[Batch]]]]
"""Gives the id of the stream's task, and its events."""

_TASK_TAG = StreamResponse.DESCRIPTOR.fields_by_name["task"].number << 3 | 2


@dataclass(frozen=True, slots=True)
class ServiceOptions:
    """What of the service can be set."""

    agent: str = "default"
    message_bytes: int = MESSAGE_BYTES
    """The largest request, in bytes of serialized protobuf."""


class Service:
    """The eleven operations over an `Engine`. Owned by the core; used by every door."""

    def __init__(
        self,
        runtime: Engine,
        card: Card,
        access: Access | None = None,
        options: ServiceOptions | None = None,
        observe: Observe | None = None,
        stream_opened: StreamMoved | None = None,
        stream_closed: StreamMoved | None = None,
    ) -> None:
        self.options = options or ServiceOptions()
        self.credential_names: tuple[str, ...] = access.credential_names if access else ()
        """Lower-case metadata names that carry credentials, besides `authorization`."""
        self.running = RunningCalls()
        self._runtime = runtime
        self._access = access
        self._observe = observe
        self._stream_opened = stream_opened
        self._stream_closed = stream_closed
        self._rules = Rules(card.message)
        self._unwatch = card.watch(self._card_changed)
        self._unary: dict[str, Unary] = {
            "SendMessage": self._send_message,
            "GetTask": self._get_task,
            "ListTasks": self._list_tasks,
            "CancelTask": self._cancel_task,
            "CreateTaskPushNotificationConfig": self._push,
            "GetTaskPushNotificationConfig": self._push,
            "ListTaskPushNotificationConfigs": self._push,
            "DeleteTaskPushNotificationConfig": self._push,
            "GetExtendedAgentCard": self._extended_card,
        }
        self._streams: dict[str, Stream] = {
            "SendStreamingMessage": self._send_streaming_message,
            "SubscribeToTask": self._subscribe,
        }

    async def unary(
        self, method: str, request: ProtoMessage, call: Call, raw: bytes | None = None
    ) -> ProtoMessage:
        """Run a unary operation. `raw` is the serialized request, where the door has it at hand.
        The answer is the caller's own; `call.activated` is set before it comes."""
        logs.begin_call()
        started = time.perf_counter()
        code = "OK"
        running: Running | None = None
        try:
            handler = self._unary.get(method)
            if handler is None:
                raise MethodNotFoundError(f"Method not found: {method[:64]}")
            running = self.running.begin(call, False)
            self._admit(request, call, raw)
            answer: ProtoMessage = await running.inside(handler, request, call)
            return answer
        except BaseException as error:
            code, error = _judged(error)
            raise error
        finally:
            self._finish(running, call, method, code, started)

    async def stream(
        self, method: str, request: ProtoMessage, call: Call, raw: bytes | None = None
    ) -> AsyncGenerator[Batch, None]:
        """Run a streaming operation: non-empty batches of events with their sequence numbers.
        Whoever stops early closes the generator; that never touches the task."""
        logs.begin_call()
        started = time.perf_counter()
        code = "OK"
        running: Running | None = None
        events: Any = None
        is_open = False
        try:
            starter = self._streams.get(method)
            if starter is None:
                raise MethodNotFoundError(f"Method not found: {method[:64]}")
            running = self.running.begin(call, True)
            self._admit(request, call, raw)
            running.task_id, events = await running.inside(starter, request, call)
            while (batch := await running.inside(anext, events, None)) is not None:
                if not is_open:
                    is_open = True
                    self._note_stream(self._stream_opened, call)
                yield batch
        except GeneratorExit:
            code = "CANCELLED"
            raise
        except BaseException as error:
            code, error = _judged(error)
            raise error
        finally:
            if events is not None:
                await events.aclose()
            if is_open:
                self._note_stream(self._stream_closed, call)
            self._finish(running, call, method, code, started)

    async def drain(self, grace: float) -> None:
        """Take no new calls and wait until those under way have ended: by themselves, as idle
        streams, or at the end of `grace` seconds with UNAVAILABLE."""
        await self.running.drain(grace, self._runtime.is_working)

    def close(self) -> None:
        """Let go of the card."""
        self._unwatch()

    # -- before any work ------------------------------------------------------------------

    def _admit(self, request: Any, call: Call, raw: bytes | None) -> None:
        """What holds for every operation. Authentication comes first: nothing else may tell a
        stranger anything (A2A 13.1)."""
        if self._access is None:
            call.caller, call.scheme = ANONYMOUS, ""
        else:
            call.caller, call.scheme = self._access.authenticate(call.metadata)
        call.agent = self.options.agent
        if call.version != VERSION:
            check_version(call.version)
        call.activated = self._rules.activate(call.extensions)
        if raw is None:
            raw = request.SerializeToString()
        check_size(len(raw), self.options.message_bytes)
        check_values(request, raw)
        if tenant := request.tenant:
            check_tenant(tenant)
        call.tenant = tenant

    # -- operations -----------------------------------------------------------------------

    async def _send_message(self, request: SendMessageRequest, call: Call) -> ProtoMessage:
        self._check_send(request)
        sent = await self._runtime.send(call, request)
        configuration = request.configuration
        response = await sent.outcome(not configuration.return_immediately)
        if configuration.HasField("history_length") and response.HasField("task"):
            _trim(response.task, configuration.history_length)
        return response

    async def _send_streaming_message(
        self, request: SendMessageRequest, call: Call
    ) -> tuple[str, AsyncIterator[Batch]]:
        self._check_streaming()
        self._check_send(request)
        sent = await self._runtime.send(call, request)
        events = sent.events(call.cursor)
        configuration = request.configuration
        if configuration.HasField("history_length"):
            events = _trimmed(events, configuration.history_length)
        return sent.task_id, events

    async def _get_task(self, request: GetTaskRequest, call: Call) -> ProtoMessage:
        check_id("id", request.id)
        length = request.history_length if request.HasField("history_length") else None
        if length is not None:
            check_history_length(length)
        task = await self._runtime.task(call.scope, request.id)
        if length is not None:
            _trim(task, length)
        return task

    async def _list_tasks(self, request: ListTasksRequest, call: Call) -> ProtoMessage:
        check_list(request)
        scope = call.scope
        query = to_query(request, scope)
        tasks, has_more, total = await self._runtime.tasks(scope, query)
        response = ListTasksResponse(page_size=query.limit, total_size=total)
        if has_more and tasks:
            response.next_page_token = next_token(tasks[-1], scope, query)
        length = request.history_length if request.HasField("history_length") else None
        for task in tasks:
            if length is not None:
                _trim(task, length)
            if not request.include_artifacts:
                task.ClearField("artifacts")
        response.tasks.extend(tasks)
        return response

    async def _cancel_task(self, request: CancelTaskRequest, call: Call) -> ProtoMessage:
        check_id("id", request.id)
        return await self._runtime.cancel(call, request.id)

    async def _subscribe(
        self, request: SubscribeToTaskRequest, call: Call
    ) -> tuple[str, AsyncIterator[Batch]]:
        self._check_streaming()
        check_id("id", request.id)
        task_id = request.id
        return task_id, await self._runtime.subscribe(call.scope, task_id, call.cursor)

    async def _push(self, request: ProtoMessage, call: Call) -> ProtoMessage:
        raise PushNotificationNotSupportedError(_NO_PUSH)

    async def _extended_card(self, request: ProtoMessage, call: Call) -> ProtoMessage:
        raise UnsupportedOperationError("This agent has no extended card; the public card is all")

    # -- checks ---------------------------------------------------------------------------

    def _check_send(self, request: SendMessageRequest) -> None:
        rules = self._rules
        check_send(request, rules)
        if not rules.push and request.configuration.HasField("task_push_notification_config"):
            raise PushNotificationNotSupportedError(_NO_PUSH)

    def _check_streaming(self) -> None:
        if not self._rules.streaming:
            raise UnsupportedOperationError(
                "This agent does not stream, as its card says; use SendMessage and GetTask"
            )

    def _card_changed(self, revision: Revision) -> None:
        self._rules = Rules(revision.message)

    def _note_stream(self, moved: StreamMoved | None, call: Call) -> None:
        if moved is not None:
            moved(call.door)

    def _finish(
        self, running: Running | None, call: Call, method: str, code: str, started: float
    ) -> None:
        if running is not None:
            self.running.finish(running)
        name = method if method in METHODS else "unknown"
        seconds = time.perf_counter() - started
        if self._observe is not None:
            self._observe(call.door, name, code, seconds)
        logger.debug("%s by %s: %s after %.1f ms", name, call.door, code, seconds * 1000)


_NO_PUSH = "This agent sends no push notifications, as its card says; subscribe or poll instead"


def _judged(error: BaseException) -> tuple[str, BaseException]:
    """The code of a failure, and the exception to raise for it: unknown ones are judged, and so
    logged, once."""
    if isinstance(error, A2AError):
        return judge(error).row.code.name, error
    if isinstance(error, Exception):
        failure = judge(error)
        return failure.row.code.name, FailureError(failure)
    return "CANCELLED", error


def _trim(task: Task, length: int) -> None:
    surplus = len(task.history) - length
    if surplus > 0:
        del task.history[:surplus]


async def _trimmed(events: AsyncIterator[Batch], length: int) -> AsyncGenerator[Batch, None]:
    """Trim the history of tasks in a stream; other events pass untouched."""
    try:
        async for batch in events:
            yield [_trim_event(event, length) for event in batch]
    finally:
        await events.aclose()  # type: ignore[attr-defined]


def _trim_event(event: LogEvent, length: int) -> LogEvent:
    if event.payload[0] != _TASK_TAG:
        return event
    response = StreamResponse.FromString(event.payload)
    _trim(response.task, length)
    return LogEvent(event.seq, response.SerializeToString())


__all__ = ["MESSAGE_BYTES", "Observe", "Service", "ServiceOptions"]
