"""A process that commits tasks to a store and says after each commit how far it has come.

Usage: python writer.py DATABASE [OWNER]. Prints `open`, then the number of each commit.
"""

import asyncio
import sys

from gateway.store import Query
from gateway.store.sqlite import SqliteStore
from tests.unit.store.making import ANNA, COMPLETED, begin, log, put, task_row, turn_row

TASKS = 3
EVENTS = 5


async def main(path: str, owner: str) -> None:
    store = SqliteStore(path, owner=owner)
    await store.open()
    print("open", flush=True)
    number = (await store.tasks(ANNA, Query(limit=1))).total // TASKS
    while True:
        names = [f"{number}-{place}" for place in range(TASKS)]
        await store.commit([begin(turn_row(f"turn {name}", name)) for name in names])
        writes = []
        for name in names:
            # large enough that a commit spans many pages
            row = task_row(name, state=COMPLETED, seq=EVENTS, snapshot=name.encode() * 1000)
            write = put(row, log(1, EVENTS))
            write.ended_turn = f"turn {name}"
            writes.append(write)
        await store.commit(writes)
        print(number, flush=True)
        number += 1


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], "".join(sys.argv[2:])))
