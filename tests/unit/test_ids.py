"""Identifiers (S112)."""

import os
import time
import uuid

from gateway.ids import new_id


def test_ids_are_uuids_of_version_7_with_the_time() -> None:
    before = time.time_ns() // 1_000_000
    made = uuid.UUID(new_id())
    after = time.time_ns() // 1_000_000
    assert made.version == 7
    assert made.variant == uuid.RFC_4122
    assert before <= made.int >> 80 <= after


def test_later_ids_are_greater_and_none_comes_twice() -> None:
    ids = [new_id() for _ in range(20_000)]
    assert ids == sorted(set(ids))


def test_ids_differ_in_their_random_part() -> None:
    """What the time does not fix is random in every id, across refills of the pool."""
    tails = {new_id()[19:] for _ in range(5_000)}
    assert len(tails) == 5_000


def test_a_forked_child_does_not_repeat_its_parent() -> None:
    new_id()
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        os.write(writer, new_id()[19:].encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reader, 100).decode() != new_id()[19:]
