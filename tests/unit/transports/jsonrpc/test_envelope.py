"""JSON-RPC requests: what is read, what is refused, and to which id."""

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.errors import judge
from transports.jsonrpc.envelope import (
    MAX_ID_BYTES,
    EnvelopeError,
    error_response,
    read_request,
    result_response,
)
from transports.jsonrpc.errors import failure_from

GOOD = {"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {"id": "x"}}


def refusal(text: str | bytes) -> tuple[int, Any]:
    """Code and id of the answer to a text that is refused."""
    with pytest.raises(EnvelopeError) as caught:
        read_request(text)
    assert caught.value.id is not None
    answer = json.loads(error_response(caught.value.id, judge(caught.value.error)))
    assert set(answer) == {"jsonrpc", "id", "error"}
    assert answer["error"]["data"][0]["reason"]
    return answer["error"]["code"], answer["id"]


def changed(**members: Any) -> str:
    """The good request with some members changed; `...` takes one away."""
    value = {**GOOD, **members}
    return json.dumps({name: item for name, item in value.items() if item is not ...})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (changed(jsonrpc=...), (-32600, 1)),
        (changed(id={"a": 1}), (-32600, None)),
        (changed(id=[1]), (-32600, None)),
        (changed(id=True), (-32600, None)),
        (changed(params="x"), (-32602, 1)),
        (changed(params=5), (-32602, 1)),
        (changed(params=[]), (-32602, 1)),
        (changed(jsonrpc="1.0"), (-32600, 1)),
        (changed(jsonrpc=2.0), (-32600, 1)),
        (changed(method=""), (-32600, 1)),
        (changed(method=5), (-32600, 1)),
        (changed(method=None), (-32600, 1)),
        (changed(method=...), (-32600, 1)),
        (changed(jsonrpc=..., id=...), (-32600, None)),
        (changed(method=..., id=...), (-32600, None)),
        (json.dumps({"jsonrpc": "2.0", "id": 5}), (-32600, 5)),
        (changed(id="x" * MAX_ID_BYTES), (-32600, None)),
        (changed(id=5).replace("5", "5." + "0" * MAX_ID_BYTES), (-32600, None)),
    ],
)
def test_broken_envelopes(text: str, expected: tuple[int, Any]) -> None:
    """JR01, JR09, SD10, S46: the code that fits, and the id wherever it can be read."""
    assert refusal(text) == expected


@pytest.mark.parametrize("text", [b'{"jsonrpc":"2.0","id":1,"method":"Get', b"", b" ", b"\xff\xfe"])
def test_what_is_not_json(text: bytes) -> None:
    """JR02, SD01, S46."""
    assert refusal(text) == (-32700, None)


@pytest.mark.parametrize("text", ["[]", f"[{changed()}]", "1", '"x"', "null", "true"])
def test_batches_and_other_values(text: str) -> None:
    """D33: one refusal for an array; a request is an object."""
    assert refusal(text) == (-32600, None)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (changed(method="\ud83d"), (-32600, 1)),
        (changed(id="\ud83d"), (-32600, None)),
        (changed(id="a\ud83d", method=5), (-32600, None)),
    ],
)
def test_half_surrogates(text: str, expected: tuple[int, Any]) -> None:
    """PB11: a clean refusal that does not echo the bad id."""
    assert refusal(text) == expected


@pytest.mark.parametrize(
    "literal",
    [
        "7",
        '"7"',
        '"07"',
        '"+7"',
        "null",
        "-1",
        "0",
        "-0",
        "1.5",
        "7.0",
        "1e3",
        "18446744073709551616",
        "123456789012345678901234567890",
        '""',
        '"\u00e4\u2028"',
        '"\\u0000\\n"',
    ],
)
def test_ids_come_back_as_they_were(literal: str) -> None:
    """JR05, S45: every id of JSON-RPC, number or text, is echoed exactly."""
    request = read_request('{"jsonrpc":"2.0","method":"GetTask","id":' + literal + "}")
    assert request.id is not None
    assert json.loads(request.id) == json.loads(literal)
    if literal[0] != '"':
        assert request.id.decode() == literal
    assert json.loads(result_response(request.id, b"{}"))["id"] == json.loads(literal)


def test_ids_that_differ_stay_different() -> None:
    """JR05: 7, "7" and "07" are three ids."""
    texts = [changed(id=7), changed(id="7"), changed(id="07"), changed(id=7.0)]
    assert len({read_request(text).id for text in texts}) == 4


def test_a_notification_has_no_id_and_null_is_one() -> None:
    """JR07, JSON-RPC 2.0 s4.1."""
    assert read_request(changed(id=...)).id is None
    assert read_request(changed(id=None)).id == b"null"


def test_a_notification_with_broken_params_is_not_answered() -> None:
    """JR07."""
    with pytest.raises(EnvelopeError) as caught:
        read_request(changed(id=..., params="x"))
    assert caught.value.id is None


@pytest.mark.parametrize("params", [..., None])
def test_params_may_be_left_out(params: Any) -> None:
    """JR09: methods without required fields need no params; the codec judges the others."""
    assert read_request(changed(params=params)).params is None


def test_repeated_and_unknown_members_are_read() -> None:
    """The last of two equal keys counts; members that we do not know are ignored."""
    text = '{"jsonrpc":"2.0","id":1,"id":2,"method":"A","method":"B","x":{"y":1},"params":{}}'
    request = read_request(text)
    assert (request.id, request.method, request.params) == (b"2", "B", {})


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1" + "0" * 5000])
def test_numbers_that_json_does_not_have(number: str) -> None:
    """NaN and Infinity are not JSON (RFC 8259 s6)."""
    assert (
        refusal(f'{{"jsonrpc":"2.0","id":1,"method":"A","params":{{"n":{number}}}}}')[0] == -32700
    )


@pytest.mark.parametrize("depth", [1100, 100_000])
def test_deep_nesting_is_a_clean_error(depth: int) -> None:
    """S174: never a RecursionError."""
    text = '{"jsonrpc":"2.0","id":1,"method":"A","params":{"a":' + "[" * depth + "]" * depth + "}}"
    assert refusal(text) == (-32600, None)


JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=8,
)
MEMBERS = st.fixed_dictionaries(
    {},
    optional={
        "jsonrpc": st.just("2.0") | JSON,
        "id": JSON,
        "method": st.sampled_from(["SendMessage", "GetTask"]) | JSON,
        "params": st.dictionaries(st.text(max_size=4), JSON) | JSON,
    },
)


@given(MEMBERS.map(json.dumps) | JSON.map(json.dumps) | st.text())
@settings(max_examples=400)
def test_fuzzed_envelopes(text: str) -> None:
    """Any text gives a request, or an error with the right id; never anything else."""
    try:
        answered = read_request(text).id
    except EnvelopeError as error:
        answered = error.id
        response = json.loads(error_response(answered or b"null", judge(error.error)))
        assert response["error"]["code"] in (-32700, -32600, -32602)
        assert failure_from(response["error"]).row.jsonrpc == response["error"]["code"]
    try:
        value = json.loads(text)
    except ValueError:
        assert answered == b"null"
        return
    given_id = value.get("id") if isinstance(value, dict) else None
    if answered is not None and answered != b"null":
        assert json.loads(answered) == given_id
        assert type(json.loads(answered)) is type(given_id)


@given(st.binary(max_size=64))
@settings(max_examples=200)
def test_fuzzed_bytes(data: bytes) -> None:
    """Bytes of any kind give a request or an EnvelopeError."""
    with contextlib.suppress(EnvelopeError):
        read_request(data)
