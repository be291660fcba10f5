"""Raw requests to the HTTP door, for what no client would send."""

import json
from typing import Any

import httpx

MESSAGE = {"messageId": "m1", "role": "ROLE_USER", "parts": [{"text": "hi"}]}
TYPED = {"content-type": "application/json", "a2a-version": "1.0"}


class Wire:
    """One connection to the HTTP door."""

    def __init__(self, http: httpx.Client):
        self.http = http

    def raw(self, body: bytes | str, **headers: str) -> httpx.Response:
        """Any bytes to the JSON-RPC URL."""
        content = body.encode("utf-8", "surrogatepass") if isinstance(body, str) else body
        return self.http.post("/", content=content, headers={**TYPED, **headers})

    def rpc(self, method: str, params: Any = ..., call_id: Any = 1) -> Any:
        """A request; what is `...` is left out. Gives the response object."""
        request = {"jsonrpc": "2.0", "id": call_id, "method": method, "params": params}
        body = json.dumps({k: v for k, v in request.items() if v is not ...})
        response = self.raw(body)
        assert response.status_code == 200
        return response.json()

    def code(self, method: str, params: Any = ...) -> int:
        """The number of the error that a request gives."""
        response = self.rpc(method, params)
        assert "result" not in response, response
        assert response["id"] == 1
        return int(response["error"]["code"])

    def send(self, message: Any = None, **params: Any) -> Any:
        """SendMessage of the smallest message with these changes."""
        return self.rpc("SendMessage", {"message": {**MESSAGE, **(message or {})}, **params})

    def works(self) -> None:
        """The connection is still good for a request."""
        task = self.send()["result"]["task"]
        assert task["status"]["state"] == "TASK_STATE_COMPLETED"

    def post(self, path: str, value: Any, **headers: str) -> httpx.Response:
        """A REST request."""
        content = value if isinstance(value, bytes) else json.dumps(value).encode()
        return self.http.post(path, content=content, headers={**TYPED, **headers})


def error_of(response: httpx.Response, call_id: Any = None) -> int:
    """The code of a JSON-RPC error with this id."""
    assert response.headers["content-type"] == "application/json"
    body = response.json()
    assert body["jsonrpc"] == "2.0"
    assert body["id"] == call_id
    assert "result" not in body
    assert isinstance(body["error"]["message"], str)
    return int(body["error"]["code"])


def slow(call_id: str) -> str:
    """A request for a stream of six events."""
    message = {**MESSAGE, "parts": [{"text": "slow 3 40"}]}
    params = json.dumps({"message": message})
    head = '{"jsonrpc":"2.0","id":' + call_id
    return head + ',"method":"SendStreamingMessage","params":' + params + "}"
