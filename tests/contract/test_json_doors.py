"""Envelopes of JSON-RPC as bytes: what is wrong with them, ids, notifications (JSON-RPC 2.0)."""

import json
from typing import Any

import httpx
import pytest

from tests.contract.doors import Places
from tests.contract.wire import MESSAGE, TYPED, Wire, error_of, slow

GET = '"method":"GetTask","params":{"id":"x"}'

ENVELOPES: list[tuple[str, int, Any]] = [
    ('{"id":1,' + GET + "}", -32600, 1),
    ('{"jsonrpc":"1.0","id":1,' + GET + "}", -32600, 1),
    ('{"jsonrpc":2.0,"id":1,' + GET + "}", -32600, 1),
    ('{"jsonrpc":"2.0","id":{"a":1},' + GET + "}", -32600, None),
    ('{"jsonrpc":"2.0","id":[1],' + GET + "}", -32600, None),
    ('{"jsonrpc":"2.0","id":true,' + GET + "}", -32600, None),
    ('{"jsonrpc":"2.0","id":1,"method":"GetTask","params":"x"}', -32602, 1),
    ('{"jsonrpc":"2.0","id":1,"method":"GetTask","params":[]}', -32602, 1),
    ('{"jsonrpc":"2.0","id":1,"method":"GetTask","params":["x"]}', -32602, 1),
    ('{"jsonrpc":"2.0","id":1,"method":"GetTask"}', -32602, 1),
    ('{"jsonrpc":"2.0","id":1,"method":"GetTask","params":null}', -32602, 1),
    ('{"jsonrpc":"2.0","id":1,"method":""}', -32600, 1),
    ('{"jsonrpc":"2.0","id":1,"method":5}', -32600, 1),
    ('{"jsonrpc":"2.0","id":1,"method":null}', -32600, 1),
    ('{"jsonrpc":"2.0","id":1}', -32600, 1),
    ('{"jsonrpc":"2.0","id":"a","method":"getTask"}', -32601, "a"),
    ('{"jsonrpc":"2.0","id":"a","method":"message/send","params":{}}', -32601, "a"),
    ('{"jsonrpc":"2.0","id":null,"method":"Nothing"}', -32601, None),
    ("[]", -32600, None),
    ('[{"jsonrpc":"2.0","id":1,' + GET + "}]", -32600, None),
    ("5", -32600, None),
    ('"x"', -32600, None),
    ("null", -32600, None),
    ("{}", -32600, None),
]


@pytest.mark.parametrize(("body", "code", "call_id"), ENVELOPES)
def test_envelopes(wire: Wire, body: str, code: int, call_id: Any) -> None:
    """JR01, JR09, S45, S46, D1, D33: each flaw of an envelope has its own code, with the id where
    it can be read; the connection goes on."""
    assert error_of(wire.raw(body), call_id) == code
    wire.works()


BROKEN = [
    b"",
    b" ",
    b'{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":',
    b"{'jsonrpc':'2.0'}",
    b'{"jsonrpc":"2.0","id":1,' + GET.encode() + b"}}",
    b'{"jsonrpc":"2.0","id":1,' + GET.encode() + b"} x",
    b'{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":NaN}}',
    b'{"jsonrpc":"2.0","id":01,' + GET.encode() + b"}",
    b"\xff\xfe",
    b'{"jsonrpc":"2.0","id":1,"method":"Get\xffTask"}',
    b"\xef\xbb\xbf{}",
    b"<html></html>",
]


@pytest.mark.parametrize("body", BROKEN)
def test_broken_json(wire: Wire, body: bytes) -> None:
    """JR02, S46, R38: Parse error with id null and the standard text; the connection goes on."""
    response = wire.raw(body)
    assert response.status_code == 200
    assert error_of(response) == -32700
    assert response.json()["error"]["message"].startswith("Invalid JSON payload")
    wire.works()


def test_standard_texts(wire: Wire) -> None:
    """R38, S46: the first words of JSON-RPC's own codes, and the name of an unknown method."""
    texts = {
        -32600: ("Request payload validation error", wire.raw("{}").json()),
        -32601: ("Method not found: Nope", wire.rpc("Nope")),
        -32602: ("Invalid parameters", wire.rpc("GetTask", {"id": 5})),
    }
    for code, (text, response) in texts.items():
        assert response["error"]["code"] == code
        assert response["error"]["message"].startswith(text)


@pytest.mark.parametrize(
    "call_id", ["7", '"7"', '"07"', '"+7"', "0", "-1", "1e2", "7.0", "7.50", '""', "null"]
)
def test_ids(wire: Wire, call_id: str) -> None:
    """JR05, S45: an id comes back as it was written, in answers, errors and frames of a stream."""
    start = '{"jsonrpc":"2.0","id":' + call_id + ',"method":'
    message = json.dumps({"message": MESSAGE})
    bodies = [
        start + '"SendMessage","params":' + message + "}",
        start + '"Nope"}',
        start + '"SendStreamingMessage","params":' + message + "}",
    ]
    for body in bodies:
        lines = [x for x in wire.raw(body).text.splitlines() if not x.startswith(("id:", ":"))]
        for line in filter(None, lines):
            assert f'"id":{call_id},' in line


def test_one_id_many_streams(places: Places) -> None:
    """JR05: streams with ids that look alike, at once: each frame carries the id of its own."""
    ids = ["7", '"7"', '"07"']
    with httpx.Client(base_url=places.http, trust_env=False) as http:
        streams = [http.stream("POST", "/", content=slow(i), headers=TYPED) for i in ids]
        responses = [stream.__enter__() for stream in streams]
        lines = [[x for x in r.iter_lines() if x.startswith("data:")] for r in responses]
        for stream in streams:
            stream.__exit__(None, None, None)
    for call_id, frames in zip(ids, lines, strict=True):
        assert len(frames) == 6
        assert all(f.startswith('data: {"jsonrpc":"2.0","id":' + call_id + ",") for f in frames)


def test_notifications(wire: Wire) -> None:
    """JR07: a request without an id is carried out and never answered, also where it fails; an id
    of null is a request."""
    for method, params in (
        ("GetTask", {"id": "no-such"}),
        ("Nope", {}),
        ("GetTask", []),
        ("SendStreamingMessage", {"message": MESSAGE}),
    ):
        response = wire.raw(json.dumps({"jsonrpc": "2.0", "method": method, "params": params}))
        assert (response.status_code, response.content) == (204, b"")
    tenant = "of-notifications"
    body = {"jsonrpc": "2.0", "method": "SendMessage"}
    wire.raw(json.dumps({**body, "params": {"message": MESSAGE, "tenant": tenant}}))
    assert wire.rpc("ListTasks", {"tenant": tenant})["result"]["totalSize"] == 1
    assert wire.rpc("GetTask", {"id": "no-such"}, None) == {
        "jsonrpc": "2.0",
        "id": None,
        "error": wire.rpc("GetTask", {"id": "no-such"}, 2)["error"],
    }
