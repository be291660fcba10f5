"""`isolation: process`: a Python agent in a process of its own, so that an agent that blocks, leaks
or crashes takes nothing with it. Layer: agents.

`agent` is the core's part, `worker` the process as the core holds it, `child` what runs in it;
`frames` and `stream` are between them. The messages are those of `proto/agent.proto`; they
travel as frames on a socket pair, because a gRPC call for each turn would cost more than the
turn (docs/decisions/0007-agent-processes.md).
"""
