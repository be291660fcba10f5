"""`grpc:ADDRESS`: an agent in a process of its own, behind the contract `proto/agent.proto`.
Layer: agents. The rules stand in that file; docs/agents.md explains them.

The channel reconnects by itself, with back-off. A turn is never repeated: where its connection
breaks nobody knows how much of it was done, so its task becomes FAILED and says so.
"""

import asyncio
import contextlib
import logging
import time
from typing import Any

import grpc
import grpc.aio
from google.protobuf.message import DecodeError
from google.rpc.error_details_pb2 import ErrorInfo
from google.rpc.status_pb2 import Status

from gateway.agents import SECRET_NAMES, AgentError, Turn, contract
from gateway.agents.kinds import Settings
from gateway.config import Address
from gateway.errors import BY_REASON, Failure, FailureError
from gateway.pb import agent_pb2

logger = logging.getLogger(__name__)

START_WAIT = 3.0
"""Seconds that `start` waits for the agent; then the gateway serves without it."""
CONNECT_WAIT = 10.0
"""Seconds that a turn waits for an agent that cannot be reached."""
CANCEL_WAIT = 1.0
"""The same for a cancel, whose caller waits."""
LOSS_WAIT = 1.0
"""Seconds until the channel knows of a loss; longer only where the agent's server itself said that
it is unavailable."""
WINDOW_BYTES = 256 * 1024
LAST_WORDS = 1.0
"""Seconds that Execute has to end once Cancel has returned."""
LINGER = 10.0
"""Seconds that Execute has to end once its task is terminal: it takes a place meanwhile."""

_DETAILS = "grpc-status-details-bin"
_FIRST_BACKOFF = 0.1
_LONGEST_BACKOFF = 2.0
# below this interval servers with gRPC's defaults take pings for abuse
KEEPALIVE = 310.0
"""Seconds of silence after which an agent with turns is asked whether it is alive."""
KEEPALIVE_TIMEOUT = 20.0

UNREACHABLE = "The agent cannot be reached"
LOST = "The connection to the agent was lost in the middle of this turn"
NOT_SERVED = "The agent does not serve the contract of this gateway"
TOO_LARGE = "A message between the gateway and the agent is larger than the other side takes"


def make(rest: str, settings: Settings, *, name: str) -> "RemoteAgent":
    """The agent at the address `rest`. Raises `AgentError` for one that cannot be used."""
    try:
        address = Address.parse(rest)
    except ValueError as error:
        raise AgentError(f"agent grpc:{rest}: the address {error}") from None
    if not address.is_local:
        raise AgentError(
            f"agent grpc:{rest} is on another machine, and what is said to it would not be "
            "encrypted; run the gateway beside the agent, at 127.0.0.1:PORT or unix:PATH"
        )
    if not address.is_unix and not address.port:
        raise AgentError(f"agent grpc:{rest} has no port to connect to")
    return RemoteAgent(
        str(address),
        name=name,
        secret_names=settings.secret_names,
        message_bytes=settings.message_bytes,
    )


def card_name(rest: str) -> str:
    """An address is no name for a card."""
    return "agent"


class RemoteFailureError(Exception):
    """The agent ended a call with an error of its own; the text is for the log."""


class Execution:
    """One Execute under way."""

    __slots__ = ("is_cancelled", "is_cut", "reading", "rpc")

    def __init__(self, rpc: Any):
        self.rpc = rpc
        self.is_cancelled = False
        """The task is: what goes wrong from now on is no failure."""
        self.is_cut = False
        self.reading: asyncio.Task[None]

    def cut(self) -> None:
        """Cancel the call: the agent's side ends, and nothing more is read."""
        self.is_cut = True
        self.rpc.cancel()


class RemoteAgent:
    """Runs turns at the address of an agent, `HOST:PORT` or `unix:PATH`."""

    def __init__(
        self,
        address: str,
        *,
        name: str = "grpc",
        secret_names: frozenset[str] = frozenset(),
        message_bytes: int = 16 << 20,
        connect_wait: float = CONNECT_WAIT,
        start_wait: float = START_WAIT,
    ):
        self.name = name
        self._address = address
        self._secret_names = secret_names | SECRET_NAMES
        self._message_bytes = message_bytes
        self._connect_wait = connect_wait
        self._start_wait = start_wait
        self._channel: grpc.aio.Channel | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._executions: dict[Turn, Execution] = {}
        self._execute: Any
        self._cancel: Any

    async def start(self) -> None:
        """Waits a little for the agent, which may be started after the gateway."""
        self._channel = channel = grpc.aio.insecure_channel(self._address, options=self._options())
        self._execute = channel.unary_stream(
            contract.EXECUTE,
            request_serializer=agent_pb2.ExecuteRequest.SerializeToString,
            response_deserializer=agent_pb2.ExecuteResponse.FromString,
        )
        self._cancel = channel.unary_unary(
            contract.CANCEL,
            request_serializer=agent_pb2.CancelRequest.SerializeToString,
            response_deserializer=agent_pb2.CancelResponse.FromString,
        )
        if not await self._is_connected(self._start_wait):
            logger.warning("the agent at %s cannot be reached yet", self._address)

    def _options(self) -> list[tuple[str, int]]:
        # tasks bring back what clients have said, which the runtime's own check does not count
        size = 2 * self._message_bytes
        seconds = {
            "grpc.initial_reconnect_backoff_ms": _FIRST_BACKOFF,
            "grpc.min_reconnect_backoff_ms": _FIRST_BACKOFF,
            "grpc.max_reconnect_backoff_ms": _LONGEST_BACKOFF,
            "grpc.keepalive_time_ms": KEEPALIVE,
            "grpc.keepalive_timeout_ms": KEEPALIVE_TIMEOUT,
            "grpc.http2.ping_timeout_ms": KEEPALIVE_TIMEOUT,
        }
        return [
            ("grpc.max_receive_message_length", size),
            ("grpc.max_send_message_length", -1),
            # a long turn may be silent for many pings
            ("grpc.http2.max_pings_without_data", 0),
            # what an agent may send before it is held up: fixed, instead of growing with its speed
            ("grpc.http2.bdp_probe", 0),
            ("grpc.http2.lookahead_bytes", WINDOW_BYTES),
            # what lies between is a socket of this machine, never a proxy of the environment
            ("grpc.enable_http_proxy", 0),
            # channels to one address would share a connection, and its flow control
            ("grpc.use_local_subchannel_pool", 1),
            *((name, int(value * 1000)) for name, value in seconds.items()),
        ]

    async def stop(self) -> None:
        channel, self._channel = self._channel, None
        if self._connecting is not None:
            self._connecting.cancel()
        for execution in self._executions.values():
            execution.cut()
        if channel is not None:
            await channel.close()

    @property
    def fault(self) -> str:
        """Why no turn can run now; empty where it can. For readiness."""
        if self._channel is None:
            return "the agent is not started"
        state = self._channel.get_state(try_to_connect=True)
        # CONNECTING too: one that is frozen is being connected to for most of the time
        is_up = state in (grpc.ChannelConnectivity.READY, grpc.ChannelConnectivity.IDLE)
        return "" if is_up else "the agent cannot be reached"

    async def run(self, turn: Turn) -> None:
        if not await self._is_connected(self._connect_wait):
            logger.warning("the agent at %s cannot be reached", self._address)
            await contract.emit_failure(turn, UNREACHABLE)
            return
        request = contract.to_execute_request(turn, self._secret_names)
        execution = Execution(self._execute(request))
        self._executions[turn] = execution
        # in a task of its own: a cancelled read would cancel the call, and the agent's last words
        execution.reading = asyncio.create_task(self._read(execution, request, turn))
        try:
            await asyncio.shield(execution.reading)
        except asyncio.CancelledError:
            # `cancel` tells the agent and sees to the end of the call
            execution.is_cancelled = True
            await asyncio.wait([execution.reading])
            execution.reading.result()
            raise
        finally:
            del self._executions[turn]
            if not execution.reading.done():
                execution.cut()

    async def _read(
        self, execution: Execution, request: agent_pb2.ExecuteRequest, turn: Turn
    ) -> None:
        is_settled = False
        late: asyncio.TimerHandle | None = None
        try:
            response = await self._first(execution, request)
            while response is not grpc.aio.EOF:
                event = contract.to_event(response)
                is_settled = contract.settles(event)
                # waits while the store is behind; nothing is read meanwhile
                await turn.emit(event)
                if late is None and contract.ends(event):
                    late = asyncio.get_running_loop().call_later(LINGER, self._cut, execution, turn)
                response = await execution.rpc.read()
        except asyncio.CancelledError:
            if not execution.is_cut:
                raise
        except grpc.aio.AioRpcError as error:
            if not execution.is_cancelled:
                await self._end(turn, error, is_settled)
        finally:
            if late is not None:
                late.cancel()
            execution.rpc.cancel()

    async def _first(self, execution: Execution, request: agent_pb2.ExecuteRequest) -> Any:
        """The first response. A call that found no connection after all was not sent: the channel
        learns late that an agent has gone. It is made again, once there is one."""
        end = time.monotonic() + self._connect_wait
        while True:
            try:
                return await execution.rpc.read()
            except grpc.aio.AioRpcError as error:
                left = end - time.monotonic()
                if left <= 0 or execution.is_cancelled or not _was_never_sent(error):
                    raise
                if not await self._is_connected(left) or execution.is_cut:
                    raise
            execution.rpc = self._execute(request)

    def _cut(self, execution: Execution, turn: Turn) -> None:
        logger.warning(
            "task %s has ended, and the agent at %s has not ended its Execute %g s later; cut off",
            turn.task_id,
            self._address,
            LINGER,
        )
        execution.cut()

    async def _end(self, turn: Turn, error: grpc.aio.AioRpcError, is_settled: bool) -> None:
        """What an end with another status than OK does to the turn."""
        code, details = error.code(), error.details() or ""
        if (failure := _told_failure(error)) is not None:
            raise FailureError(failure)
        reason = _reason(code, details)
        if not reason:
            raise RemoteFailureError(f"the agent ended its turn with {code.name}: {details}")
        logger.warning("agent at %s: %s: %s", self._address, reason, details)
        if reason is LOST:
            await self._see_the_loss()
        if not is_settled:
            await contract.emit_failure(turn, reason)

    async def cancel(self, turn: Turn) -> None:
        execution = self._executions.get(turn)
        try:
            if execution is None and not await self._is_connected(CANCEL_WAIT):
                raise RemoteFailureError(UNREACHABLE)
            is_settled = await self._tell(turn)
            if execution is not None and not is_settled:
                await asyncio.wait([execution.reading], timeout=LAST_WORDS)
        finally:
            if execution is not None and not execution.reading.done():
                execution.cut()

    async def _tell(self, turn: Turn) -> bool:
        """Call Cancel; whether nothing more is to be waited for."""
        try:
            answer = await self._cancel(contract.to_cancel_request(turn, self._secret_names))
        except grpc.aio.AioRpcError as error:
            if error.code() is grpc.StatusCode.UNIMPLEMENTED:
                return True
            text = f"{error.code().name}: {error.details()}"
            raise RemoteFailureError(f"the agent's Cancel ended with {text}") from None
        is_settled = False
        for response in answer.events:
            event = contract.to_event(response)
            is_settled = contract.settles(event)
            await turn.emit(event)
        return is_settled

    # The connection

    async def _see_the_loss(self) -> None:
        """Wait until the channel, too, knows that its connection is gone, which it learns a moment
        after its calls: the next turn must not be sent there."""
        channel, ready = self._channel, grpc.ChannelConnectivity.READY
        if channel is None or channel.get_state() is not ready:
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LOSS_WAIT):
                await channel.wait_for_state_change(ready)

    async def _is_connected(self, wait: float) -> bool:
        channel = self._channel
        if channel is None:
            raise AgentError(f"agent {self.name} is not started")
        if channel.get_state(try_to_connect=True) is grpc.ChannelConnectivity.READY:
            return True
        if self._connecting is None or self._connecting.done():
            self._connecting = asyncio.create_task(channel.channel_ready())
        connecting = self._connecting
        await asyncio.wait([connecting], timeout=wait)
        return connecting.done() and not connecting.cancelled() and connecting.exception() is None


def _was_never_sent(error: grpc.aio.AioRpcError) -> bool:
    return error.code() is grpc.StatusCode.UNAVAILABLE and (error.details() or "").startswith(
        "failed to connect to all addresses"
    )


def _told_failure(error: grpc.aio.AioRpcError) -> Failure | None:
    """The A2A error that the agent itself named by a google.rpc.ErrorInfo."""
    serialized = dict(error.trailing_metadata() or ()).get(_DETAILS)
    status = Status()
    with contextlib.suppress(DecodeError):
        status.ParseFromString(serialized if isinstance(serialized, bytes) else b"")
    for packed in status.details:
        info = ErrorInfo()
        if packed.Unpack(info) and info.reason in BY_REASON:
            return Failure.from_status(status)
    return None


def _reason(code: grpc.StatusCode, details: str) -> str:
    """What the task says of an end that gRPC gave, not the agent; empty for the agent's own."""
    if code is grpc.StatusCode.UNAVAILABLE:
        return LOST
    if code is grpc.StatusCode.UNIMPLEMENTED:
        return NOT_SERVED
    if code is grpc.StatusCode.RESOURCE_EXHAUSTED and "larger than max" in details:
        return TOO_LARGE
    return ""
