"""The length of SQLite's write-ahead log, prepared ahead of the commits.

A commit that makes the file longer waits for the file system's own journal, too; one that writes
over blocks that are there takes half as long. SQLite reads a log up to the first frame that is
not whole, so zeros behind its frames are nothing to it.
"""

import contextlib
import os

STEP_BYTES = 1 << 20
"""Written at once, while commits wait."""


def lengthen(path: str, size: int) -> bool:
    """One step towards `size` bytes for the log of the database at `path`; whether more are to be
    done. To be called where no commit can run meanwhile. What the disk refuses is let be."""
    with contextlib.suppress(OSError):
        log = os.open(f"{path}-wal", os.O_WRONLY | os.O_CLOEXEC)
        try:
            end = os.fstat(log).st_size
            count = min(STEP_BYTES, size - end)
            if count > 0 and os.pwrite(log, bytes(count), end) == count:
                os.fdatasync(log)
                return end + count < size
        finally:
            os.close(log)
    return False
