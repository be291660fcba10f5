"""REST paths."""

import re

import pytest
from a2a.utils.errors import InvalidParamsError
from google.api.annotations_pb2 import http

from gateway.pb import DESCRIPTOR, METHODS
from transports.http.routes import ROUTES, find


def leads_to(path: str, method: str = "GET") -> tuple[str | None, dict[str, str]]:
    """Operation and fields of a path."""
    match = find(path.encode())
    assert match is not None
    return match.route.operations.get(method), match.fields


@pytest.mark.parametrize(
    ("method", "path", "operation", "fields"),
    [
        ("POST", "message:send", "SendMessage", {}),
        ("POST", "message:stream", "SendStreamingMessage", {}),
        ("POST", "message%3Asend", "SendMessage", {}),
        ("GET", "tasks", "ListTasks", {}),
        ("GET", "tasks/t1", "GetTask", {"id": "t1"}),
        ("POST", "tasks/t1:cancel", "CancelTask", {"id": "t1"}),
        ("POST", "tasks/t1:subscribe", "SubscribeToTask", {"id": "t1"}),
        ("GET", "tasks/t1:subscribe", "SubscribeToTask", {"id": "t1"}),
        (
            "POST",
            "tasks/t1/pushNotificationConfigs",
            "CreateTaskPushNotificationConfig",
            {"task_id": "t1"},
        ),
        (
            "GET",
            "tasks/t1/pushNotificationConfigs",
            "ListTaskPushNotificationConfigs",
            {"task_id": "t1"},
        ),
        (
            "GET",
            "tasks/t1/pushNotificationConfigs/c1",
            "GetTaskPushNotificationConfig",
            {"task_id": "t1", "id": "c1"},
        ),
        (
            "DELETE",
            "tasks/t1/pushNotificationConfigs/c1",
            "DeleteTaskPushNotificationConfig",
            {"task_id": "t1", "id": "c1"},
        ),
        ("GET", "extendedAgentCard", "GetExtendedAgentCard", {}),
    ],
)
def test_every_path_with_and_without_a_tenant(
    method: str, path: str, operation: str, fields: dict[str, str]
) -> None:
    """S42, R40, D25."""
    assert leads_to(path, method) == (operation, fields)
    assert leads_to("acme%2F1/" + path, method) == (operation, {**fields, "tenant": "acme/1"})


def test_the_table_is_that_of_the_proto() -> None:
    """R1: paths, methods and fields are those of the proto's google.api.http annotations."""
    ours = {
        (verb, route.pattern): operation
        for route in ROUTES
        for verb, operation in route.operations.items()
    }
    theirs = {}
    for method in DESCRIPTOR.services_by_name["A2AService"].methods:
        rule = method.GetOptions().Extensions[http]
        verb = rule.WhichOneof("pattern")
        pattern = re.sub(r"\{(\w+)=\*\}", r"{\1}", getattr(rule, verb)).lstrip("/")
        theirs[verb.upper(), pattern] = method.name
        (tenant,) = rule.additional_bindings
        assert getattr(tenant, verb) == "/{tenant}" + getattr(rule, verb)
    # POST to subscribe is the specification's (requirements T1)
    assert ours.pop(("POST", "tasks/{id}:subscribe")) == "SubscribeToTask"
    assert ours == theirs
    assert set(theirs.values()) == set(METHODS)


@pytest.mark.parametrize(
    ("path", "task_id"),
    [
        ("tasks/a%2Fb", "a/b"),
        ("tasks/a:b", "a:b"),
        ("tasks/t%3Acancel", "t:cancel"),
        ("tasks/%C3%A4%20%25", "ä %"),
        ("tasks/a+b", "a+b"),
        ("tasks/tasks", "tasks"),
        ("tasks/a:b:cancel", "a:b"),
    ],
)
def test_ids_of_any_characters(path: str, task_id: str) -> None:
    """Segments are decoded one by one; only a plain colon starts a verb."""
    match = find(path.encode())
    assert match is not None
    assert match.fields == {"id": task_id}


@pytest.mark.parametrize(
    "path",
    [
        "",
        "nothing",
        "tasks/",
        "/tasks",
        "tasks/a/b",
        "a/b/tasks",
        "//tasks",
        "tasks/t/pushNotificationConfigs/",
        "message:sends",
        "x/y/z/a/b/c/d",
    ],
)
def test_paths_that_lead_nowhere(path: str) -> None:
    assert find(path.encode()) is None


def test_a_segment_that_is_not_unicode() -> None:
    with pytest.raises(InvalidParamsError, match="not UTF-8"):
        find(b"tasks/%FF")
