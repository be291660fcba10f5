"""Identifiers that the gateway makes: UUIDs of version 7 (RFC 9562 s5.7).

Time-ordered, so that the store's indexes grow at their end.
"""

import os
import time

_POOL_BYTES = 4096
"""Randomness taken from the system at once: asking costs more than all the rest of an id."""

_last = 0
_pool = b""
_used = _POOL_BYTES


def _take(count: int) -> int:
    global _pool, _used
    if _used + count > len(_pool):
        _pool, _used = os.urandom(_POOL_BYTES), 0
    _used += count
    return int.from_bytes(_pool[_used - count : _used])


def _refill() -> None:
    global _pool
    _pool = b""


# a child must not hand out its parent's numbers
os.register_at_fork(after_in_child=_refill)


def new_id() -> str:
    """A new UUIDv7 in its text form; later calls of one process compare greater."""
    global _last
    random = _take(10)
    stamp = time.time_ns() // 1_000_000 << 12 | random >> 68
    # 12 bits of rand_a serve as a counter within the millisecond (RFC 9562 s6.2, method 1)
    _last = stamp = stamp if stamp > _last else _last + 1
    high, middle, low = stamp >> 28, stamp >> 12 & 0xFFFF, stamp & 0xFFF
    variant, node = random >> 48 & 0x3FFF | 0x8000, random & 0xFFFF_FFFF_FFFF
    return f"{high:08x}-{middle:04x}-7{low:03x}-{variant:04x}-{node:012x}"
