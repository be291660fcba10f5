"""The stdio door: frames on a program's standard input and output (docs/bindings/stdio.md).

`streams` reads and writes descriptors, `server` answers at this end, `client` starts a program and
calls it. Unlike the other doors it is not opened by `serve`: the client starts the process.
"""

BINDING = "urn:a2a-gateway:binding:stdio:v1"
"""The binding in cards and in the answer to `$/initialize`: a name, nothing to fetch."""
