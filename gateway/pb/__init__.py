"""The one door to generated messages.

A2A messages come from `a2a.types`: stubs compiled from the canonical file cannot be loaded
beside the SDK, which registers the same names. Our own protocol (`proto/link.proto`) is
compiled into `link_pb2` by `make generate`.
"""

from dataclasses import dataclass
from typing import Any

from a2a.types.a2a_pb2 import (
    DESCRIPTOR,
    TASK_STATE_SUBMITTED,
    TASK_STATE_UNSPECIFIED,
    AgentCapabilities,
    AgentCard,
    AgentExtension,
    AgentInterface,
    AgentProvider,
    AgentSkill,
    APIKeySecurityScheme,
    Artifact,
    CancelTaskRequest,
    DeleteTaskPushNotificationConfigRequest,
    GetExtendedAgentCardRequest,
    GetTaskPushNotificationConfigRequest,
    GetTaskRequest,
    HTTPAuthSecurityScheme,
    ListTaskPushNotificationConfigsRequest,
    ListTaskPushNotificationConfigsResponse,
    ListTasksRequest,
    ListTasksResponse,
    Message,
    Part,
    Role,
    SecurityRequirement,
    SecurityScheme,
    SendMessageConfiguration,
    SendMessageRequest,
    SendMessageResponse,
    StreamResponse,
    StringList,
    SubscribeToTaskRequest,
    Task,
    TaskArtifactUpdateEvent,
    TaskPushNotificationConfig,
    TaskState,
    TaskStatus,
    TaskStatusUpdateEvent,
)
from google.protobuf import message_factory
from google.protobuf.empty_pb2 import Empty
from google.protobuf.message import Message as ProtoMessage
from google.protobuf.struct_pb2 import ListValue, Struct, Value
from google.protobuf.timestamp_pb2 import Timestamp

Event = Message | Task | TaskStatusUpdateEvent | TaskArtifactUpdateEvent
"""What an agent may emit."""

SERVICE_NAME = "lf.a2a.v1.A2AService"


@dataclass(frozen=True, slots=True)
class Method:
    """One operation of A2AService, as the service descriptor states it."""

    name: str
    request: type[ProtoMessage]
    response: type[ProtoMessage]
    streaming: bool

    @property
    def path(self) -> str:
        """Full gRPC path."""
        return f"/{SERVICE_NAME}/{self.name}"


def _methods() -> dict[str, Method]:
    service: Any = DESCRIPTOR.services_by_name["A2AService"]
    return {
        m.name: Method(
            name=m.name,
            request=message_factory.GetMessageClass(m.input_type),
            response=message_factory.GetMessageClass(m.output_type),
            streaming=m.server_streaming,
        )
        for m in service.methods
    }


METHODS: dict[str, Method] = _methods()
"""The eleven operations by their PascalCase name."""

TERMINAL_STATES = frozenset(
    {
        TaskState.TASK_STATE_COMPLETED,
        TaskState.TASK_STATE_CANCELED,
        TaskState.TASK_STATE_FAILED,
        TaskState.TASK_STATE_REJECTED,
    }
)
INTERRUPTED_STATES = frozenset(
    {TaskState.TASK_STATE_INPUT_REQUIRED, TaskState.TASK_STATE_AUTH_REQUIRED}
)

__all__ = [
    "DESCRIPTOR",
    "INTERRUPTED_STATES",
    "METHODS",
    "SERVICE_NAME",
    "TASK_STATE_SUBMITTED",
    "TASK_STATE_UNSPECIFIED",
    "TERMINAL_STATES",
    "APIKeySecurityScheme",
    "AgentCapabilities",
    "AgentCard",
    "AgentExtension",
    "AgentInterface",
    "AgentProvider",
    "AgentSkill",
    "Artifact",
    "CancelTaskRequest",
    "DeleteTaskPushNotificationConfigRequest",
    "Empty",
    "Event",
    "GetExtendedAgentCardRequest",
    "GetTaskPushNotificationConfigRequest",
    "GetTaskRequest",
    "HTTPAuthSecurityScheme",
    "ListTaskPushNotificationConfigsRequest",
    "ListTaskPushNotificationConfigsResponse",
    "ListTasksRequest",
    "ListTasksResponse",
    "ListValue",
    "Message",
    "Method",
    "Part",
    "ProtoMessage",
    "Role",
    "SecurityRequirement",
    "SecurityScheme",
    "SendMessageConfiguration",
    "SendMessageRequest",
    "SendMessageResponse",
    "StreamResponse",
    "StringList",
    "Struct",
    "SubscribeToTaskRequest",
    "Task",
    "TaskArtifactUpdateEvent",
    "TaskPushNotificationConfig",
    "TaskState",
    "TaskStatus",
    "TaskStatusUpdateEvent",
    "Timestamp",
    "Value",
]
