"""The HTTP adapter as it would be without the link: one native gRPC call for each A2A call.

Takes the arguments of `a2a-gateway adapter`. The link stays up beside, for card and readiness;
calls go to the core's native listener, whose address is in A2A_BENCH_GRPC.
"""

import os
from functools import cache

from gateway.call import Call
from gateway.cli.commands import cli
from gateway.pb import ProtoMessage
from transports.core import Answer, CoreClient
from transports.grpc_client import GrpcClient, GrpcStream


@cache
def _native() -> GrpcClient:
    """Made by the first call, inside the adapter's loop."""
    return GrpcClient(os.environ["A2A_BENCH_GRPC"])


async def _unary(self: CoreClient, method: str, request: ProtoMessage, call: Call) -> Answer:
    answer = await _native().unary(method, request, call)
    return Answer(answer.message, answer.metadata)


def _stream(self: CoreClient, method: str, request: ProtoMessage, call: Call) -> GrpcStream:
    return _native().stream(method, request, call)


if __name__ == "__main__":
    CoreClient.unary = _unary  # type: ignore[method-assign]
    CoreClient.stream = _stream  # type: ignore[method-assign, assignment]
    cli()
