"""Credentials as the SDK's Python client sends them: by the schemes that the card declares.

S13, S15, S167, R2, R27: the same rules at each binding, the card open to all.
"""

import pytest
from a2a.client import (
    AuthInterceptor,
    ClientCallContext,
    ClientCallInterceptor,
    CredentialService,
)
from a2a.client.errors import A2AClientError
from a2a.types import GetTaskRequest, ListTasksRequest, TaskState
from a2a.utils.errors import TaskNotFoundError

from tests.conftest import run
from tests.interop.conftest import ALICES_TOKEN, BOBS_KEY
from tests.interop.python_sdk import BINDINGS, connect, read_card, request, send
from tests.processes import Addresses

pytestmark = pytest.mark.parametrize("binding", BINDINGS)


class Wallet(CredentialService):
    """Credentials by the name of the scheme."""

    def __init__(self, **credentials: str) -> None:
        self._credentials = credentials

    async def get_credentials(
        self, security_scheme_name: str, context: ClientCallContext | None
    ) -> str | None:
        return self._credentials.get(security_scheme_name)


def signed_in(**credentials: str) -> list[ClientCallInterceptor]:
    return [AuthInterceptor(Wallet(**credentials))]


def test_callers_have_their_own_tasks(guarded: Addresses, binding: str) -> None:
    """Alice by her token and Bob by his key both get in, and neither sees the other's task."""

    async def body() -> None:
        card = await read_card(guarded)
        assert {"bearerAuth", "apiKeyAuth"} <= set(card.security_schemes)
        alice, bob = signed_in(bearerAuth=ALICES_TOKEN), signed_in(apiKeyAuth=BOBS_KEY)
        async with (
            connect(guarded, binding, card, alice, streaming=False) as alices,
            connect(guarded, binding, card, bob, streaming=False) as bobs,
        ):
            task = (await send(alices, request("hello"))).task
            assert task.status.state == TaskState.TASK_STATE_COMPLETED
            assert (await alices.get_task(GetTaskRequest(id=task.id))).id == task.id
            with pytest.raises(TaskNotFoundError):
                await bobs.get_task(GetTaskRequest(id=task.id))
            await send(bobs, request("hello"))
            listed = await bobs.list_tasks(ListTasksRequest(context_id=task.context_id))
            assert listed.total_size == 0

    run(body())


@pytest.mark.parametrize("credentials", [{}, {"bearerAuth": "wrong"}, {"apiKeyAuth": ALICES_TOKEN}])
def test_nobody_else_gets_in(guarded: Addresses, binding: str, credentials: dict[str, str]) -> None:
    """Refused unary and streamed; the client tells an authentication error."""

    async def body() -> None:
        for streaming in (False, True):
            async with connect(
                guarded, binding, interceptors=signed_in(**credentials), streaming=streaming
            ) as client:
                with pytest.raises(A2AClientError, match=r"401|UNAUTHENTICATED"):
                    await anext(client.send_message(request("hello")))

    run(body())
