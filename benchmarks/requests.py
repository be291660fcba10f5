"""Request bytes, built once: only the message id changes from call to call.

A template holds `MARK`, twelve bytes wide, where the number of the call goes, so that lengths
stay as they are.
"""

import json
from itertools import count

from a2a.types.a2a_pb2 import Message, Part, Role, SendMessageRequest

MARK = b"############"
ECHO = "echo hello"


class Template:
    """Bytes with a place for a number that no other request of this process has."""

    _numbers = count(1)

    def __init__(self, content: bytes) -> None:
        self._head, self._tail = content.split(MARK)

    def fill(self) -> bytes:
        """The bytes of one more request."""
        return b"%s%012d%s" % (self._head, next(self._numbers), self._tail)


def http(method: str, params: dict[str, object], *, path: str = "/") -> Template:
    """A JSON-RPC call as a whole HTTP/1.1 request on a kept connection."""
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
    head = (
        f"POST {path} HTTP/1.1\r\nhost: localhost\r\na2a-version: 1.0\r\n"
        f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    return Template(head.encode() + body)


def http_send(text: str = ECHO, *, method: str = "SendMessage", wait: bool = True) -> Template:
    """SendMessage or SendStreamingMessage with one text part."""
    message = {"messageId": MARK.decode(), "role": "ROLE_USER", "parts": [{"text": text}]}
    params: dict[str, object] = {"message": message}
    if not wait:
        params["configuration"] = {"returnImmediately": True}
    return http(method, params)


def http_task(method: str, task_id: str) -> Template:
    """A call that names a task: CancelTask, SubscribeToTask, GetTask."""
    # The mark stands in the metadata of no method here, so it takes the place of a blank value.
    return http(method, {"id": task_id, "tenant": ""}, path=f"/?n={MARK.decode()}")


def grpc_send(text: str = ECHO) -> Template:
    """SendMessage as one gRPC length-prefixed message."""
    message = Message(message_id=MARK.decode(), role=Role.ROLE_USER, parts=[Part(text=text)])
    body = SendMessageRequest(message=message).SerializeToString()
    return Template(b"\0" + len(body).to_bytes(4, "big") + body)
