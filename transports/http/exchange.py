"""One HTTP request and its answer, as raw ASGI gives it (ASGI 3 `http` scope).

Wire layer of the HTTP door: reads bodies within the limit, turns headers into call metadata
(A2A 3.2.6) and writes answers. Knows neither JSON-RPC nor REST.
"""

from collections.abc import Iterable
from typing import Any
from urllib.parse import parse_qsl

from gateway.call import PARAMETER_PREFIXES, VERSION, Call, Peer
from transports.http.protocol import EXTENSION, Connection

Headers = list[tuple[bytes, bytes]]

JSON = b"application/json"
CONTENT_TYPE = b"content-type"

_CODES_WITHOUT_BODY = frozenset({204, 304})


class BodyTooLargeError(Exception):
    """The body is larger than `limit` bytes; the rest of it is not read."""

    def __init__(self, limit: int):
        super().__init__(f"the body is larger than {limit} bytes")
        self.limit = limit


class ClientGoneError(Exception):
    """The client closed the connection before its request was complete."""


class Exchange:
    """A request and its answer."""

    __slots__ = (
        "_is_old",
        "_receive",
        "connection",
        "headers",
        "method",
        "scope",
        "send",
        "started",
    )

    def __init__(self, scope: Any, receive: Any, send: Any):
        self.scope = scope
        self.send = send
        self.method: str = scope["method"]
        self.headers: Headers = scope["headers"]
        extensions = scope.get("extensions")
        self.connection: Connection | None = extensions.get(EXTENSION) if extensions else None
        self.started = False
        """Whether the answer's head is out."""
        self._receive = receive
        self._is_old = self.connection is not None and scope["http_version"] in ("1.0", "0.9")

    @property
    def is_lost(self) -> bool:
        """Whether the client is gone."""
        return self.connection is not None and self.connection.is_lost

    def header(self, name: bytes) -> bytes:
        """The first value of a header (lower-case name); empty where there is none."""
        for key, value in self.headers:
            if key == name:
                return value
        return b""

    async def body(self, limit: int) -> bytes:
        """The whole body. Raises `BodyTooLargeError` as soon as that is known, and
        `ClientGoneError`."""
        length = self.header(b"content-length")
        if length.isdigit() and int(length[:20]) > limit:
            raise BodyTooLargeError(limit)
        message = await self._receive()
        if message["type"] == "http.request" and not message.get("more_body"):
            body: bytes = message.get("body", b"")
            if len(body) > limit:
                raise BodyTooLargeError(limit)
            return body
        chunks, size = [], 0
        while True:
            if message["type"] != "http.request":
                raise ClientGoneError
            chunk = message.get("body", b"")
            size += len(chunk)
            if size > limit:
                raise BodyTooLargeError(limit)
            chunks.append(chunk)
            if not message.get("more_body"):
                return b"".join(chunks)
            message = await self._receive()

    def closing(self) -> Headers:
        """For an answer to a body that was not read. It is read and dropped, so that its sender
        sees the answer; one that waits for `100 Continue` may never send it (RFC 9110 s10.1.1)."""
        return [(b"connection", b"close")] if self.header(b"expect") else []

    def call(self, names: "MetadataNames") -> Call:
        """The call's metadata; raises `InvalidParamsError` where it is malformed."""
        pairs = names.select(self.headers)
        query = self.scope["query_string"]
        if query and VERSION not in dict(pairs):
            # A2A 3.6.1: HTTP may pass the version as a query parameter
            pairs += [
                (VERSION, value)
                for name, value in parse_qsl(query.decode("latin-1"), keep_blank_values=True)
                if name.lower() == VERSION
            ]
        return Call.from_metadata(pairs, door="http", peer=self._peer())

    def _peer(self) -> Peer:
        client = self.scope.get("client")
        peer = Peer(f"{client[0]}:{client[1]}" if client else "")
        origin = self.header(b"origin")
        if origin:
            peer.origin = origin.decode("latin-1")
        if self.connection is not None and self.scope.get("scheme") == "https":
            peer.certificate = self.connection.peer_certificate
        return peer

    async def reply(
        self,
        status: int,
        body: bytes,
        content_type: bytes = JSON,
        extra: Iterable[tuple[bytes, bytes]] = (),
    ) -> None:
        """Send a whole answer."""
        headers: Headers = []
        if status not in _CODES_WITHOUT_BODY:
            headers.append((CONTENT_TYPE, content_type))
            headers.append((b"content-length", b"%d" % len(body)))
        headers += extra
        self.started = True
        if self.connection is not None and self.connection.answer(status, headers, body):
            return
        await self.send({"type": "http.response.start", "status": status, "headers": headers})
        await self.send({"type": "http.response.body", "body": body})

    async def start(self, status: int, headers: Headers) -> None:
        """Send the head of an answer that goes on in `write`."""
        self.started = True
        if self.connection is not None and not self.connection.keeps_alive:
            headers = [header for header in headers if header[0] != b"connection"]
        if self._is_old and self.connection is not None:
            self.connection.write_plainly(0)
        await self.send({"type": "http.response.start", "status": status, "headers": headers})

    async def write(self, data: bytes, *, more: bool = True) -> None:
        """Send a part of the body; waits while the client takes no more."""
        if self._is_old and self.connection is not None:
            self.connection.write_plainly(len(data))
        await self.send({"type": "http.response.body", "body": data, "more_body": more})


class MetadataNames:
    """Which headers become call metadata: service parameters, credentials, and every name that
    starts with `a2a-` or `x-a2a-`."""

    __slots__ = ("_known",)

    def __init__(self, names: Iterable[str]):
        # header -> metadata name, None: not ours; grows by the names that clients send
        self._known: dict[bytes, str | None] = {name.encode(): name for name in names}

    def select(self, headers: Headers) -> list[tuple[str, str]]:
        """The pairs to pass on, in order."""
        known = self._known
        pairs = []
        for key, value in headers:
            name = known[key] if key in known else self._judge(key)
            if name is not None:
                pairs.append((name, value.decode("latin-1")))
        return pairs

    def _judge(self, key: bytes) -> str | None:
        text = key.decode("latin-1")
        name = text if text.startswith(PARAMETER_PREFIXES) else None
        if len(self._known) < 1024:
            self._known[key] = name
        return name
