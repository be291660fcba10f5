"""Sends that can be retried: one outcome for one idempotency key of a scope.

While the turn runs its repeats join it here; once its end is stored the store answers for the
key. A send that gave no answer at all (an error) leaves its key free.
"""

import asyncio
import hashlib
from typing import TYPE_CHECKING

from gateway.call import Call, Scope
from gateway.errors import ValidationError
from gateway.pb import SendMessageRequest
from gateway.runtime.reading import Repeated, Sent
from gateway.runtime.turn import LiveTurn

if TYPE_CHECKING:
    from gateway.runtime.engine import Runtime

First = asyncio.Future[Sent | Repeated]


class Keys:
    """The keys whose sends are under way."""

    def __init__(self, runtime: "Runtime") -> None:
        self._runtime = runtime
        self._under_way: dict[tuple[Scope, str], tuple[bytes, First]] = {}

    def __len__(self) -> int:
        return len(self._under_way)

    async def send(self, call: Call, request: SendMessageRequest) -> Sent | Repeated:
        """Send, or join or repeat the send that had this key first. Raises `ValidationError`
        where that was another request, and what `Runtime.begin` raises."""
        entry = (call.scope, call.idempotency_key)
        digest = _digest(request)
        while known := self._under_way.get(entry):
            _check(known[0], digest)
            await asyncio.wait([known[1]])
            # where the first one was cancelled before it began, this one is the first
            if not known[1].cancelled():
                return known[1].result()
        first: First = self._runtime.loop.create_future()
        self._under_way[entry] = (digest, first)
        try:
            sent = await self._find_or_begin(call, request, digest)
        except asyncio.CancelledError:
            del self._under_way[entry]
            first.cancel()
            raise
        except Exception as error:
            del self._under_way[entry]
            first.set_exception(error)
            first.exception()  # nobody else may be waiting for it
            raise
        first.set_result(sent)
        if isinstance(sent, Repeated):
            del self._under_way[entry]
        return sent

    async def _find_or_begin(
        self, call: Call, request: SendMessageRequest, digest: bytes
    ) -> Sent | Repeated:
        row = await self._runtime.store.turn_by_key(call.scope, call.idempotency_key)
        if row is None:
            return await self._runtime.begin(call, request, digest)
        _check(row.digest, digest)
        return Repeated(self._runtime, row)

    async def forget(self, turn: LiveTurn) -> None:
        """Leave the key of an ended turn to the store, once its end is stored."""
        while turn in turn.live.turns:
            await turn.live.changed()
        self.drop(turn)

    def drop(self, turn: LiveTurn) -> None:
        """Free the key of a turn that never began, or leave it to the store."""
        self._under_way.pop((turn.live.scope, turn.row.key), None)


def _digest(request: SendMessageRequest) -> bytes:
    return hashlib.blake2b(request.SerializeToString(deterministic=True), digest_size=16).digest()


def _check(known: bytes, digest: bytes) -> None:
    if known != digest:
        raise ValidationError(
            ("idempotency-key", "was used for another request; use a new key for a new request")
        )
