import datetime

from a2a.types import a2a_pb2 as _a2a_pb2
from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ExecuteRequest(_message.Message):
    __slots__ = ("task_id", "context_id", "request", "task", "related_tasks", "call")
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    CONTEXT_ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    RELATED_TASKS_FIELD_NUMBER: _ClassVar[int]
    CALL_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    context_id: str
    request: _a2a_pb2.SendMessageRequest
    task: _a2a_pb2.Task
    related_tasks: _containers.RepeatedCompositeFieldContainer[_a2a_pb2.Task]
    call: CallInfo
    def __init__(self, task_id: _Optional[str] = ..., context_id: _Optional[str] = ..., request: _Optional[_Union[_a2a_pb2.SendMessageRequest, _Mapping]] = ..., task: _Optional[_Union[_a2a_pb2.Task, _Mapping]] = ..., related_tasks: _Optional[_Iterable[_Union[_a2a_pb2.Task, _Mapping]]] = ..., call: _Optional[_Union[CallInfo, _Mapping]] = ...) -> None: ...

class CallInfo(_message.Message):
    __slots__ = ("caller", "tenant", "scheme", "door", "version", "extensions", "activated_extensions", "metadata", "time_left")
    class MetadataEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    CALLER_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    SCHEME_FIELD_NUMBER: _ClassVar[int]
    DOOR_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    EXTENSIONS_FIELD_NUMBER: _ClassVar[int]
    ACTIVATED_EXTENSIONS_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    TIME_LEFT_FIELD_NUMBER: _ClassVar[int]
    caller: str
    tenant: str
    scheme: str
    door: str
    version: str
    extensions: _containers.RepeatedScalarFieldContainer[str]
    activated_extensions: _containers.RepeatedScalarFieldContainer[str]
    metadata: _containers.ScalarMap[str, str]
    time_left: _duration_pb2.Duration
    def __init__(self, caller: _Optional[str] = ..., tenant: _Optional[str] = ..., scheme: _Optional[str] = ..., door: _Optional[str] = ..., version: _Optional[str] = ..., extensions: _Optional[_Iterable[str]] = ..., activated_extensions: _Optional[_Iterable[str]] = ..., metadata: _Optional[_Mapping[str, str]] = ..., time_left: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class ExecuteResponse(_message.Message):
    __slots__ = ("task", "message", "status_update", "artifact_update")
    TASK_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    STATUS_UPDATE_FIELD_NUMBER: _ClassVar[int]
    ARTIFACT_UPDATE_FIELD_NUMBER: _ClassVar[int]
    task: _a2a_pb2.Task
    message: _a2a_pb2.Message
    status_update: _a2a_pb2.TaskStatusUpdateEvent
    artifact_update: _a2a_pb2.TaskArtifactUpdateEvent
    def __init__(self, task: _Optional[_Union[_a2a_pb2.Task, _Mapping]] = ..., message: _Optional[_Union[_a2a_pb2.Message, _Mapping]] = ..., status_update: _Optional[_Union[_a2a_pb2.TaskStatusUpdateEvent, _Mapping]] = ..., artifact_update: _Optional[_Union[_a2a_pb2.TaskArtifactUpdateEvent, _Mapping]] = ...) -> None: ...

class CancelRequest(_message.Message):
    __slots__ = ("task_id", "context_id", "request", "task", "call")
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    CONTEXT_ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    CALL_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    context_id: str
    request: _a2a_pb2.SendMessageRequest
    task: _a2a_pb2.Task
    call: CallInfo
    def __init__(self, task_id: _Optional[str] = ..., context_id: _Optional[str] = ..., request: _Optional[_Union[_a2a_pb2.SendMessageRequest, _Mapping]] = ..., task: _Optional[_Union[_a2a_pb2.Task, _Mapping]] = ..., call: _Optional[_Union[CallInfo, _Mapping]] = ...) -> None: ...

class CancelResponse(_message.Message):
    __slots__ = ("events",)
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    events: _containers.RepeatedCompositeFieldContainer[ExecuteResponse]
    def __init__(self, events: _Optional[_Iterable[_Union[ExecuteResponse, _Mapping]]] = ...) -> None: ...
