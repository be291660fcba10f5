"""Exit codes of the client commands, and what a user can do about a failure."""

from dataclasses import dataclass
from shlex import quote

from gateway.errors import Code, Failure
from gateway.pb import Task, TaskState
from gateway.program import program

COMPLETED = 0
UNWRITTEN = 1
USAGE = 2
FAILED = 10
REJECTED = 11
CANCELED = 12
INPUT_REQUIRED = 13
AUTH_REQUIRED = 14
NOT_FINISHED = 15
ERROR = 20
UNREACHABLE = 21
REFUSED = 22
INTERRUPTED = 130

_BY_STATE: dict[int, int] = {
    TaskState.TASK_STATE_COMPLETED: COMPLETED,
    TaskState.TASK_STATE_FAILED: FAILED,
    TaskState.TASK_STATE_REJECTED: REJECTED,
    TaskState.TASK_STATE_CANCELED: CANCELED,
    TaskState.TASK_STATE_INPUT_REQUIRED: INPUT_REQUIRED,
    TaskState.TASK_STATE_AUTH_REQUIRED: AUTH_REQUIRED,
}


def of_state(state: int) -> int:
    """The exit code of a task in this state."""
    return _BY_STATE.get(state, NOT_FINISHED)


def of_task(task: Task) -> int:
    """The exit code of a task."""
    return of_state(task.status.state)


def of_failure(failure: Failure) -> int:
    """The exit code of a call that failed."""
    match failure.row.code:
        case Code.UNAVAILABLE:
            return UNREACHABLE
        case Code.UNAUTHENTICATED | Code.PERMISSION_DENIED:
            return REFUSED
        case _:
            return ERROR


_BROKE = ("gave no answer", "broke the connection", "Socket closed")
_NO_ANSWER = (
    "does it want TLS (https://, grpcs://), or no TLS, or a certificate (--cert and --key)?"
)


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What was tried when a call failed."""

    url: str
    has_credentials: bool = False
    is_unreachable: bool = False


def advice(failure: Failure, tried: Circumstances) -> str:
    """What to do about a failure; empty where there is nothing to say."""
    if tried.is_unreachable:
        if "certificate" in failure.message.lower() or "CERTIFICATE" in failure.message:
            return "trust the server's own authority by --ca FILE"
        if any(words in failure.message for words in _BROKE):
            return _NO_ANSWER
        if tried.url.startswith("stdio:"):
            return "is it installed, and in PATH, or at this path from the current directory?"
        return "is it running, and is the URL right? `a2a-gateway serve` prints where it listens"
    match failure.row.reason:
        case "UNAVAILABLE" if any(words in failure.message for words in _BROKE):
            return _NO_ANSWER
        case "UNAUTHENTICATED":
            return _credentials(failure, tried)
        case "PERMISSION_DENIED":
            return "these credentials may not do this; ask whoever runs the agent"
        case "VERSION_NOT_SUPPORTED":
            return (
                "this client speaks A2A 1.0; the agent has to be updated, or needs another client"
            )
        case "TASK_NOT_FOUND":
            return (
                "a task is seen by its own caller and tenant alone; what there is: "
                f"{program()} list {quote(tried.url)}"
            )
        case "CONTENT_TYPE_NOT_SUPPORTED" if ".mediaType" in failure.message:
            return "a file can be sent as another type: --media-type TYPE, such as text/plain"
        case "EXTENSION_SUPPORT_REQUIRED":
            return "name the extension by --extension URI"
        case "DEADLINE_EXCEEDED":
            return "give it longer by --timeout, or do not wait: --no-wait"
        case "RESOURCE_EXHAUSTED":
            return "try again later"
        case "METHOD_NOT_FOUND" | "INVALID_AGENT_RESPONSE":
            return "is this the URL of an A2A 1.0 agent? `a2a-gateway card URL` shows what is there"
        case _:
            return ""


def _credentials(failure: Failure, tried: Circumstances) -> str:
    schemes = " or ".join(challenge.partition(" ")[0] for challenge in failure.challenges)
    asked = f" (the server asks for {schemes})" if schemes else ""
    if tried.has_credentials:
        return f"the credentials that were given are not taken{asked}"
    return (
        f"give credentials{asked}: --token-file FILE or A2A_GATEWAY_TOKEN, "
        "--api-key-file FILE or A2A_GATEWAY_API_KEY, or --basic USER"
    )
