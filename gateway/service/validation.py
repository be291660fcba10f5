"""The rules that a request's fields keep, whatever door it came by.

A2A 5.7 (required fields), 3.2.4 (history length); ids as documented for this gateway. Field paths
are in the JSON spelling at every door. Pure: values in, exceptions out.
"""

import re

from gateway.errors import MAX_VIOLATIONS, InvalidParamsError, ValidationError
from gateway.freeform import find_fault
from gateway.pb import (
    ListTasksRequest,
    Message,
    ProtoMessage,
    Role,
    SendMessageRequest,
    TaskState,
    Timestamp,
)
from gateway.service.rules import Rules

MAX_ID_LENGTH = 128
MAX_TENANT_LENGTH = 128
DEFAULT_PAGE_SIZE = 50
MAX_PAGE_SIZE = 100
MAX_PARTS = 10_000
MAX_ITEMS = 1_000
"""Of other lists in a message: lists are gone through one by one while all other calls wait."""

_ROLE_USER = int(Role.ROLE_USER)
_STATES = frozenset(TaskState.values())

_is_id = re.compile(r"[A-Za-z0-9_.:-]{1,128}").fullmatch
_ID_RULE = f"must be 1 to {MAX_ID_LENGTH} letters, digits or any of _ . : -"

# google.protobuf.Timestamp holds years 1 to 9999
_FIRST_SECOND = -62_135_596_800
_LAST_SECOND = 253_402_300_799

TASKS = "tasks"
"""As a tenant: REST could not tell its list, `/tasks/tasks`, from a task (the proto's bindings); it
is refused at every door alike."""

Violations = list[tuple[str, str]]


def check_id(place: str, value: str) -> None:
    """Refuse what cannot be an id."""
    if not _is_id(value):
        raise ValidationError((place, _id_reason(value)))


def check_tenant(tenant: str) -> None:
    """Refuse a tenant that cannot be a part of keys, paths and logs."""
    if len(tenant) > MAX_TENANT_LENGTH or not tenant.isprintable():
        raise ValidationError(
            ("tenant", f"must be at most {MAX_TENANT_LENGTH} printable characters")
        )
    if tenant == TASKS:
        raise ValidationError(("tenant", f"must not be {TASKS!r}; choose another name"))


def check_size(size: int, limit: int) -> None:
    """Refuse a request that is too large; the limit is the same at every door."""
    if size > limit:
        raise InvalidParamsError(
            f"The request has {size} bytes, the limit is {limit} bytes of serialized protobuf; "
            "send large content as a url"
        )


def check_values(request: ProtoMessage, raw: bytes) -> None:
    """Refuse free-form values that not every door could give back; `raw` is the request."""
    if fault := find_fault(request, raw):
        raise ValidationError(fault)


def check_send(request: SendMessageRequest, rules: Rules) -> None:
    """Check a message and its configuration."""
    if not request.HasField("message"):
        raise ValidationError(("message", "is required"))
    message = request.message
    wrong: Violations = []
    if not message.message_id:
        wrong.append(("message.messageId", "is required; give each message an id of its own"))
    if message.role != _ROLE_USER:
        wrong.append(("message.role", _role_reason(message.role)))
    if message.task_id and not _is_id(message.task_id):
        wrong.append(("message.taskId", _id_reason(message.task_id)))
    if message.context_id and not _is_id(message.context_id):
        wrong.append(("message.contextId", _id_reason(message.context_id)))
    if message.reference_task_ids:
        _check_references(message, wrong)
    has_types = _check_parts(message, wrong)
    has_configuration = request.HasField("configuration")
    if has_configuration and request.configuration.history_length < 0:
        wrong.append(("configuration.historyLength", "must be 0 or more"))
    if wrong:
        raise ValidationError(*wrong[:MAX_VIOLATIONS])
    if has_types:
        _check_types(message, rules)
    if has_configuration and (accepted := request.configuration.accepted_output_modes):
        rules.check_accepted(accepted[:MAX_ITEMS])


def _check_references(message: Message, wrong: Violations) -> None:
    references = message.reference_task_ids
    if len(references) > MAX_ITEMS:
        wrong.append(("message.referenceTaskIds", f"must hold at most {MAX_ITEMS} ids"))
        return
    for index, reference in enumerate(references):
        if not _is_id(reference):
            wrong.append((f"message.referenceTaskIds[{index}]", _id_reason(reference)))


def _check_parts(message: Message, wrong: Violations) -> bool:
    """Whether any part names a media type."""
    parts = message.parts
    if not parts:
        wrong.append(("message.parts", "must hold at least one part"))
    elif len(parts) > MAX_PARTS:
        wrong.append(("message.parts", f"must hold at most {MAX_PARTS} parts"))
        return False
    has_types = False
    for index, part in enumerate(parts):
        if part.WhichOneof("content") is None:
            wrong.append(
                (f"message.parts[{index}]", "needs exactly one of text, raw, url and data")
            )
        if part.media_type:
            has_types = True
    return has_types


def _check_types(message: Message, rules: Rules) -> None:
    for index, part in enumerate(message.parts):
        if part.media_type:
            rules.check_input(part.media_type, f"message.parts[{index}].mediaType")


def check_history_length(length: int) -> None:
    """Refuse a negative number of messages (A2A 3.2.4)."""
    if length < 0:
        raise ValidationError(("historyLength", "must be 0 or more"))


def check_list(request: ListTasksRequest) -> None:
    """Check the filters and the page size (A2A 3.1.4)."""
    wrong: Violations = []
    if request.context_id and not _is_id(request.context_id):
        wrong.append(("contextId", _id_reason(request.context_id)))
    if request.status not in _STATES:
        wrong.append(("status", f"{int(request.status)} is no task state"))
    if request.HasField("page_size") and not 1 <= request.page_size <= MAX_PAGE_SIZE:
        wrong.append(("pageSize", f"must be 1 to {MAX_PAGE_SIZE}"))
    if request.history_length < 0:
        wrong.append(("historyLength", "must be 0 or more"))
    if request.HasField("status_timestamp_after") and not _is_time(request.status_timestamp_after):
        wrong.append(("statusTimestampAfter", "must be a time of the years 1 to 9999"))
    if wrong:
        raise ValidationError(*wrong)


def _is_time(time: Timestamp) -> bool:
    return _FIRST_SECOND <= time.seconds <= _LAST_SECOND and 0 <= time.nanos < 1_000_000_000


def _id_reason(value: str) -> str:
    return "is required" if not value else _ID_RULE


def _role_reason(role: int) -> str:
    if role == Role.ROLE_AGENT:
        return "must be ROLE_USER: ROLE_AGENT is for what the agent says"
    return "must be ROLE_USER" if role else "is required; send ROLE_USER"
