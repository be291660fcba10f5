"""The HTTP adapter as it would be without the link: one native gRPC call for each A2A call.

Takes the arguments of `a2a-gateway adapter`. The link stays up beside, for card and readiness;
calls go to the core's native listener, whose address is in A2A_BENCH_GRPC.
"""

import os
from functools import cached_property

from gateway.call import Call
from gateway.cli.commands import cli
from gateway.pb import ProtoMessage
from transports import process
from transports.core import Answer, CoreClient, CoreStream
from transports.grpc_client import GrpcClient


class PerCallClient(CoreClient):
    """The core over native gRPC; what is not a call stays on the link."""

    @cached_property
    def _native(self) -> GrpcClient:
        return GrpcClient(os.environ["A2A_BENCH_GRPC"])

    async def unary(self, method: str, request: ProtoMessage, call: Call) -> Answer:
        """One gRPC call."""
        answer = await self._native.unary(method, request, call)
        return Answer(answer.message, answer.metadata)

    def stream(self, method: str, request: ProtoMessage, call: Call) -> CoreStream:
        """One gRPC call."""
        return self._native.stream(method, request, call)  # type: ignore[return-value]


if __name__ == "__main__":
    process.CoreClient = PerCallClient  # type: ignore[misc]
    cli()
