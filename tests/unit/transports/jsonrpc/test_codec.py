"""The ProtoJSON codec against google.protobuf's own, and where it is stricter."""

import base64
import contextlib
import json
import math
from typing import Any

import pytest
from google.api.field_behavior_pb2 import REQUIRED, field_behavior
from google.protobuf import json_format
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway import freeform
from gateway.errors import ValidationError
from gateway.pb import (
    METHODS,
    AgentCard,
    Artifact,
    GetTaskRequest,
    ListTasksRequest,
    ListTasksResponse,
    Message,
    Part,
    ProtoMessage,
    SendMessageRequest,
    StreamResponse,
    Struct,
    Task,
    TaskState,
    TaskStatus,
    Timestamp,
    Value,
)
from transports.jsonrpc import codec
from transports.jsonrpc.decoding import MAX_NESTING

KINDS: list[type[ProtoMessage]] = list(
    {k.DESCRIPTOR.full_name: k for m in METHODS.values() for k in (m.request, m.response)}.values()
)
KINDS += [StreamResponse, AgentCard]

TEXT = st.text(max_size=6)
NUMBERS = st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**60), 2**60)
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)


def scalars(field: Any) -> st.SearchStrategy[Any]:
    match field.type:
        case field.TYPE_STRING:
            return TEXT
        case field.TYPE_BYTES:
            return st.binary(max_size=6)
        case field.TYPE_BOOL:
            return st.booleans()
        case field.TYPE_INT32:
            return st.integers(-(2**31), 2**31 - 1)
        case field.TYPE_ENUM:
            return st.sampled_from([value.number for value in field.enum_type.values])
    raise AssertionError(field.full_name)


def fill(draw: st.DrawFn, message: Any, depth: int = 0) -> None:
    """Set a random choice of the fields of a message to random values."""
    descriptor: Any = message.DESCRIPTOR
    match descriptor.full_name:
        case "google.protobuf.Timestamp":
            message.seconds = draw(st.integers(-62_135_596_800, 253_402_300_799))
            message.nanos = draw(st.sampled_from([0, 5_000_000, 7_000, 999_999_999]))
            return
        case "google.protobuf.Value" | "google.protobuf.ListValue" | "google.protobuf.Struct":
            kinds = {"Struct": dict, "ListValue": list}
            kind = kinds.get(descriptor.name, object)
            json_format.ParseDict(draw(JSON.filter(lambda v: isinstance(v, kind))), message)
            return
    taken = set()
    for field in draw(st.permutations(list(descriptor.fields))):
        group = field.containing_oneof
        if depth > 4 or draw(st.integers(0, 2)) == 0 or (group and group.full_name in taken):
            continue
        if group:
            taken.add(group.full_name)
        set_field(draw, message, field, depth)


def set_field(draw: st.DrawFn, message: Any, field: Any, depth: int) -> None:
    if field.type == field.TYPE_MESSAGE and field.message_type.GetOptions().map_entry:
        item = field.message_type.fields_by_name["value"]
        target = getattr(message, field.name)
        for key in draw(st.lists(TEXT, max_size=2)):
            if item.type == item.TYPE_MESSAGE:
                fill(draw, target[key], depth + 1)
            else:
                target[key] = draw(scalars(item))
    elif field.type == field.TYPE_MESSAGE:
        if field.is_repeated:
            for _ in range(draw(st.integers(0, 2))):
                fill(draw, getattr(message, field.name).add(), depth + 1)
        else:
            getattr(message, field.name).SetInParent()
            fill(draw, getattr(message, field.name), depth + 1)
    elif field.is_repeated:
        getattr(message, field.name).extend(draw(st.lists(scalars(field), max_size=2)))
    else:
        setattr(message, field.name, draw(scalars(field)))


@st.composite
def messages(draw: st.DrawFn) -> Any:
    message = draw(st.sampled_from(KINDS))()
    fill(draw, message)
    return message


def with_required(message: Any, value: Any) -> Any:
    """What `MessageToDict` gives, and the REQUIRED fields that it leaves out as empty."""
    for field in message.DESCRIPTOR.fields:
        is_map = field.type == field.TYPE_MESSAGE and field.message_type.GetOptions().map_entry
        required = REQUIRED in field.GetOptions().Extensions[field_behavior]
        if (
            required
            and not field.has_presence
            and (field.is_repeated or field.type != field.TYPE_ENUM)
        ):
            empty: Any = {} if is_map else [] if field.is_repeated else field.default_value
            value.setdefault(field.json_name, empty)
        if field.type != field.TYPE_MESSAGE or field.message_type.file.package != "lf.a2a.v1":
            continue
        inner = getattr(message, field.name)
        if is_map:
            if field.message_type.fields_by_name["value"].type == field.TYPE_MESSAGE:
                for key in inner:
                    with_required(inner[key], value[field.json_name][key])
        elif field.is_repeated:
            for sub, shown in zip(inner, value.get(field.json_name, []), strict=True):
                with_required(sub, shown)
        elif message.HasField(field.name):
            with_required(inner, value[field.json_name])
    return value


@given(messages())
@settings(max_examples=150)
def test_encodes_as_protobuf_does(message: Any) -> None:
    """R7, R43: the same JSON value as protobuf's own printer, REQUIRED fields added (A2A 5.7)."""
    expected = with_required(message, json_format.MessageToDict(message))
    assert codec.encode(message) == expected
    text = codec.to_json(message)
    assert b"\n" not in text
    assert json.loads(text) == expected


@given(messages(), st.booleans())
@settings(max_examples=150)
def test_decodes_what_it_and_protobuf_encode(message: Any, proto_names: bool) -> None:
    """R7, R43: what either printer writes, in either spelling of names, comes back the same."""
    theirs = json_format.MessageToDict(message, preserving_proto_field_name=proto_names)
    expected = json_format.ParseDict(theirs, type(message)())
    assert codec.decode(type(message), theirs) == expected
    assert codec.decode(type(message), codec.parse(codec.to_json(message))) == expected


@st.composite
def mangled(draw: st.DrawFn) -> tuple[type[ProtoMessage], Any]:
    """The JSON of a message with one value somewhere replaced by any JSON value."""
    message = draw(messages())
    value = json_format.MessageToDict(message)
    spots: list[tuple[Any, Any]] = []

    def walk(node: Any) -> None:
        pairs = node.items() if isinstance(node, dict) else enumerate(node)
        for key, item in list(pairs):
            spots.append((node, key))
            if isinstance(item, dict | list):
                walk(item)

    walk(value)
    if spots:
        node, key = draw(st.sampled_from(spots))
        node[key] = draw(JSON)
    return type(message), value


@given(mangled())
@settings(max_examples=300)
def test_never_reads_otherwise_than_protobuf(case: tuple[type[ProtoMessage], Any]) -> None:
    """PB01, PB05, PB13: what it accepts means what protobuf's parser says; it only refuses more."""
    kind, value = case
    try:
        ours = codec.decode(kind, value)
    except ValidationError:
        return
    assert ours == json_format.ParseDict(value, kind(), ignore_unknown_fields=True)


@given(st.sampled_from(KINDS), JSON)
@settings(max_examples=100)
def test_any_json_decodes_or_is_refused(kind: type[ProtoMessage], value: Any) -> None:
    """Never another exception than ValidationError."""
    with contextlib.suppress(ValidationError):
        codec.decode(kind, value)


def refused(kind: type[ProtoMessage], value: Any) -> tuple[str, str]:
    with pytest.raises(ValidationError) as caught:
        codec.decode(kind, value)
    (violation,) = caught.value.violations
    return violation


def message_with(part: Any) -> dict[str, Any]:
    return {"message": {"messageId": "m1", "role": "ROLE_USER", "parts": [part]}}


def test_nulls_survive_in_free_form_json() -> None:
    """PB01: null inside metadata stays null."""
    value = {"a": None, "b": [None, {"c": None}]}
    message = codec.decode(Message, {"metadata": value})
    again = Message.FromString(message.SerializeToString())
    assert codec.encode(again)["metadata"] == value


def test_null_fields_are_unset_and_null_data_is_a_value() -> None:
    """ProtoJSON: null means unset, except for google.protobuf.Value."""
    message = codec.decode(Message, {"messageId": None, "parts": None, "metadata": None})
    assert message == Message()
    assert codec.decode(Part, {"data": None}).WhichOneof("content") == "data"
    assert codec.encode(codec.decode(Part, {"data": None})) == {"data": None}


@pytest.mark.parametrize(
    "parts",
    [
        {"text": "a", "url": "https://files.example/x"},
        {"text": "", "raw": ""},
        {"text": "a", "data": None},
    ],
)
def test_two_members_of_a_oneof_are_refused(parts: dict[str, Any]) -> None:
    """PB05, S59: a part holds one content; a second one is not dropped without a word."""
    where, reason = refused(SendMessageRequest, message_with(parts))
    assert where.startswith("message.parts[0].")
    assert reason == "at most one of text, raw, url, data may be given"


@pytest.mark.parametrize(
    ("text", "expected"),
    [("_-8=", b"\xff\xef"), ("_-8", b"\xff\xef"), ("aGk", b"hi"), ("", b""), ("aGk=", b"hi")],
)
def test_base64_that_is_read(text: str, expected: bytes) -> None:
    """PB13: both alphabets, padding optional."""
    assert codec.decode(Part, {"raw": text}).raw == expected


@pytest.mark.parametrize(
    "text", ["@@@@", "QUJD!!!", "QUJD=", "Q", "QU JD", "QUJD\n", "=", "====", "Ä", "QQ==QQ==", 5]
)
def test_base64_that_is_refused(text: Any) -> None:
    """PB13: never stored as other or empty bytes."""
    where, reason = refused(SendMessageRequest, message_with({"raw": text}))
    assert where == "message.parts[0].raw"
    assert "base64" in reason or "string" in reason


@given(st.binary(max_size=40))
def test_base64_round_trip(data: bytes) -> None:
    """PB13: any alphabet and padding gives the same bytes."""
    for text in (base64.b64encode(data).decode(), base64.urlsafe_b64encode(data).decode()):
        assert codec.decode(Part, {"raw": text}).raw == data
        assert codec.decode(Part, {"raw": text.rstrip("=")}).raw == data


def test_a_time_with_an_offset_is_put_into_utc() -> None:
    """PB03, A2A 5.6.1."""
    request = codec.decode(ListTasksRequest, {"statusTimestampAfter": "2026-01-01T05:30:00+05:30"})
    assert codec.encode(request) == {"statusTimestampAfter": "2026-01-01T00:00:00Z"}


@pytest.mark.parametrize(
    "value",
    [
        "",
        12345,
        "yesterday",
        "2026-01-01T00:00:00.1234567891Z",
        "2026-01-01T00:00:00",
        "2026-01-01 00:00:00Z",
        "2026-02-30T00:00:00Z",
        "2026-01-01T24:00:00Z",
        "2026-01-01T00:00:00+24:00",
        "0001-01-01T00:00:00+01:00",
        "2026-01-01T00:00:00Z ",
        "２026-01-01T00:00:00Z",
    ],
)
def test_times_that_are_refused(value: Any) -> None:
    """PB03: a clean refusal that names the field."""
    where, _ = refused(ListTasksRequest, {"statusTimestampAfter": value})
    assert where == "status_timestamp_after"


@given(st.integers(-62_135_596_800, 253_402_300_799), st.integers(0, 999_999_999))
def test_times_as_protobuf_writes_them(seconds: int, nanos: int) -> None:
    """PB03: every time that we write ends in Z."""
    timestamp = Timestamp(seconds=seconds, nanos=nanos)
    assert codec.encode(timestamp) == timestamp.ToJsonString()
    assert codec.decode(Timestamp, timestamp.ToJsonString()) == timestamp


@pytest.mark.parametrize(("value", "length"), [("2", 2), (2.0, 2), (0, 0), ("-1", -1), ("1e1", 10)])
def test_whole_numbers_as_numbers_or_text(value: Any, length: int) -> None:
    """HP01: ProtoJSON's int32."""
    request = codec.decode(GetTaskRequest, {"id": "t", "historyLength": value})
    assert request.HasField("history_length")
    assert request.history_length == length


@pytest.mark.parametrize(
    "value", [2147483648, "2147483648", 1.5, "x", True, "", " 1", "1_0", [], "٢"]
)
def test_what_is_no_int32_is_refused(value: Any) -> None:
    """HP01."""
    where, _ = refused(GetTaskRequest, {"id": "t", "historyLength": value})
    assert where == "history_length"


@pytest.mark.parametrize("value", ["WORKING", "task_state_working", 99, "1", True, 1.5, ""])
def test_unknown_enum_values_are_refused(value: Any) -> None:
    """Unknown values are named, not dropped (the SDK's server drops them)."""
    where, reason = refused(ListTasksRequest, {"status": value})
    assert where == "status"
    assert "TASK_STATE_WORKING" in reason


def test_enum_numbers_are_read() -> None:
    """ProtoJSON: an enum may be given by its number."""
    assert codec.decode(ListTasksRequest, {"status": 2}).status == TaskState.TASK_STATE_WORKING


def test_numbers_stay_numbers() -> None:
    """PB08: whole doubles are written without a fraction, as the same double."""
    value = codec.parse(b'{"n":9007199254740993,"m":9007199254740992,"i":1,"f":0.1,"h":1e300}')
    text = codec.to_json(codec.decode(Struct, value))
    assert json.loads(text) == {
        "n": 9007199254740992,
        "m": 9007199254740992,
        "i": 1,
        "f": 0.1,
        "h": 1e300,
    }
    assert codec.to_json(Value(number_value=1)) == b"1"
    assert codec.to_json(Value(number_value=0)) == b"0"
    assert codec.to_json(Value(number_value=-0.0)) == b"-0.0"
    assert codec.to_json(Value(number_value=2**53)) == b"9007199254740992"


@pytest.mark.parametrize(
    "text", ['{"data":1e999}', '{"data":-1e999}', '{"data":1' + "0" * 400 + "}"]
)
def test_numbers_beyond_a_double_are_refused(text: str) -> None:
    """PB08: the limit of numbers is that of a double."""
    assert refused(Part, codec.parse(text))[0] == "data"


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_no_text_that_is_not_json_goes_out(number: float) -> None:
    """PB14: NaN has no JSON form; it is an error of the agent, not a null."""
    with pytest.raises(Exception, match="NaN or Infinity"):
        codec.to_json(Value(number_value=number))


@pytest.mark.parametrize(
    ("value", "where"),
    [
        ({"text": "\ud83d"}, "message.parts[0].text"),
        ({"metadata": {"\ud83d": 1}}, "message.parts[0].metadata"),
        ({"data": ["\ud83d"]}, "message.parts[0].data"),
    ],
)
def test_half_surrogates_are_refused_by_field(value: Any, where: str) -> None:
    """PB11."""
    assert refused(SendMessageRequest, message_with(value))[0] == where


def test_nesting_is_bound_so_that_every_parser_reads_it_back() -> None:
    """S174: nesting is limited, and what is accepted fits protobuf's limit of 100 messages."""
    for wrap in (lambda inner: {"a": inner}, lambda inner: [inner]):
        value: Any = 1
        for _ in range(MAX_NESTING):
            value = wrap(value)
        task = Task(status=TaskStatus(message=Message(parts=[codec.decode(Part, {"data": value})])))
        listed = ListTasksResponse(tasks=[task])
        assert ListTasksResponse.FromString(listed.SerializeToString()) == listed
        assert refused(Part, {"data": wrap(value)})[0] == "data"
    # the core's, for the other doors
    assert (MAX_NESTING, codec.MAX_VALUES) == (freeform.MAX_NESTING, freeform.MAX_VALUES)


@pytest.mark.parametrize("item", ["1", "[]", "{}", "[ ]", '""', '"a,b"', '{"a":[0]}', "null"])
def test_values_are_bounded(item: str) -> None:
    """S174, ML02: counted before they are read, and strings that look like many are none."""
    each = 3 if "0" in item else 1
    fitting = (codec.MAX_VALUES - 1) // each
    text = "[" + ",".join([item] * fitting) + "]"
    assert len(codec.parse(text)) == len(codec.parse(text.encode())) == fitting
    for kind in (str, str.encode):
        with pytest.raises(codec.NestingError, match="more than 200000 values"):
            codec.parse(kind("[" + ",".join([item] * (fitting + each)) + "]"))


@pytest.mark.parametrize("text", [",[" * 500_000, '\\",\\"' * 200_000, "\\\\" * 500_000])
def test_strings_are_not_counted(text: str) -> None:
    assert codec.parse(b'{"a":"' + text.encode() + b'"}') == {"a": json.loads(f'"{text}"')}
    with pytest.raises(codec.NotJsonError):
        codec.parse(b'{"a":"' + text.encode())


def test_both_names_of_one_field_are_refused() -> None:
    """One of the two would be lost without a word."""
    assert refused(Message, {"messageId": "a", "message_id": "b"})[0] == "message_id"


def test_unknown_fields_are_ignored_and_proto_names_read() -> None:
    """R8, A2A 5.7; proto names beside camelCase (ProtoJSON)."""
    request = codec.decode(GetTaskRequest, {"id": "t", "history_length": 3, "new": {"x": [1]}})
    assert request == GetTaskRequest(id="t", history_length=3)


def test_paths_are_those_of_the_request() -> None:
    """Errors name the field, with its place in a list."""
    good, bad = {"text": "a"}, {"mediaType": 1}
    value = {"message": {"parts": [good, bad]}}
    assert refused(SendMessageRequest, value) == ("message.parts[1].media_type", "must be a string")
    assert refused(SendMessageRequest, [])[0] == "request"
    assert refused(Artifact, {"extensions": ["a", 1]})[0] == "extensions[1]"
    assert refused(Artifact, {"extensions": "a"}) == ("extensions", "must be an array")
    assert refused(Artifact, {"parts": [None]}) == ("parts[0]", "must be an object")


def test_a_list_answer_always_has_its_paging_fields() -> None:
    """HP03, R21, D10: present where empty; artifacts absent where there are none."""
    assert codec.encode(ListTasksResponse()) == {
        "tasks": [],
        "nextPageToken": "",
        "pageSize": 0,
        "totalSize": 0,
    }
    assert "artifacts" not in codec.encode(ListTasksResponse(tasks=[Task(id="t")]))["tasks"][0]


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b" ",
        b"{",
        b'{"a":}',
        b"\xff\xfe",
        b'"\xff"',
        b"NaN",
        b"[Infinity]",
        b"\xef\xbb\xbf{}",
        b"01",
    ],
)
def test_texts_that_are_not_json(text: bytes) -> None:
    """JR02, SD01."""
    with pytest.raises(codec.NotJsonError):
        codec.parse(text)


@pytest.mark.parametrize("opening", [b"[", b'{"a":'])
def test_deep_texts_are_refused_without_a_crash(opening: bytes) -> None:
    """S174: never a RecursionError."""
    depth = 100_000
    closing = b"]" if opening == b"[" else b"1" + b"}"
    with pytest.raises((codec.NestingError, codec.NotJsonError)):
        codec.parse(opening * depth + closing * depth)
