"""Identifiers that the gateway makes: UUIDs of version 7 (RFC 9562 s5.7).

Time-ordered, so that the store's indexes grow at their end.
"""

import os
import time

_last = 0


def new_id() -> str:
    """A new UUIDv7 in its text form; later calls of one process compare greater."""
    global _last
    stamp = (time.time_ns() // 1_000_000 << 12) | int.from_bytes(os.urandom(2)) & 0xFFF
    # 12 bits of rand_a serve as a counter within the millisecond (RFC 9562 s6.2, method 1)
    _last = stamp = stamp if stamp > _last else _last + 1
    tail = int.from_bytes(os.urandom(8)) & 0x3FFF_FFFF_FFFF_FFFF | 0x8000_0000_0000_0000
    value = f"{stamp >> 12:012x}7{stamp & 0xFFF:03x}{tail:016x}"
    return f"{value[:8]}-{value[8:12]}-{value[12:16]}-{value[16:20]}-{value[20:]}"
