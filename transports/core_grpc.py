"""A link to HOST:PORT at the adapter: a gRPC call with the look of `gateway.link.stream`.

Loaded where such a link is made: an adapter whose core is on this machine never loads gRPC.
"""

import asyncio
from collections.abc import Sequence
from typing import Any

import grpc
import grpc.aio

from gateway.link.frames import CONNECT_PATH, LinkError
from gateway.pb import link_pb2

CHANNEL_OPTIONS: tuple[tuple[str, Any], ...] = (
    # a link that broke must not come back on the connection that broke it
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_retries", 0),
)


class CallStream:
    """Batches on one gRPC call; `close` ends its channel, too."""

    def __init__(
        self,
        address: str,
        credentials: grpc.ChannelCredentials | None,
        options: Sequence[tuple[str, Any]],
    ):
        settings = (*CHANNEL_OPTIONS, *options)
        self._channel = (
            grpc.aio.insecure_channel(address, settings)
            if credentials is None
            else grpc.aio.secure_channel(address, credentials, settings)
        )
        connect: Any = self._channel.stream_stream(
            CONNECT_PATH, response_deserializer=link_pb2.Batch.FromString
        )
        self._call = connect()

    async def read(self) -> link_pb2.Batch | None:
        """The next batch; None at the end. Raises `LinkError`."""
        try:
            batch = await self._call.read()
        except asyncio.CancelledError:
            raise _cancelled() from None
        except grpc.aio.AioRpcError as error:
            raise LinkError(_words(error)) from None
        return None if batch is grpc.aio.EOF else batch

    async def write(self, batch: bytes) -> None:
        """Send a batch. Raises `InvalidStateError` where nothing of it has left, and another
        error where some of it may have."""
        try:
            await self._call.write(batch)
        except asyncio.CancelledError:
            raise _cancelled() from None
        except grpc.aio.AioRpcError as error:
            raise LinkError(_words(error)) from None

    def cancel(self) -> None:
        """End the call at once."""
        self._call.cancel()

    async def close(self) -> None:
        """End the channel."""
        await self._channel.close()


def _cancelled() -> BaseException:
    """grpc raises `CancelledError` for a task that was cancelled and for a call that the other
    side cancelled."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        return asyncio.CancelledError()
    return LinkError("cancelled by the core")


def _words(error: grpc.aio.AioRpcError) -> str:
    return error.details() or error.code().name
