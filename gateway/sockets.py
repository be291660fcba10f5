"""Paths of Unix sockets: whatever listens at one claims it first. What fails raises `OSError` with
the number and a text for the operator."""

import errno
import os
import socket
import stat
from contextlib import closing
from pathlib import Path

LONGEST_PATH = 107
"""Bytes that a Unix socket's address holds (unix(7))."""
ANSWER_SECONDS = 1.0


def claim_path(path: str) -> None:
    """Make a path free for a Unix socket: create its directory, remove what a dead server left,
    refuse where one is alive. Raises `OSError`."""
    if len(os.fsencode(path)) > LONGEST_PATH:
        text = f"the path has more than {LONGEST_PATH} bytes; choose a shorter one"
        raise OSError(errno.ENAMETOOLONG, text, path)
    Path(path).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        text = "something that is no socket is there; remove it or choose another path"
        raise OSError(errno.EEXIST, text, path)
    if _is_answered(path):
        raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE), path)
    try:
        os.unlink(path)
    except OSError as error:
        text = f"a socket of a server that is gone cannot be removed: {error.strerror}"
        raise OSError(error.errno, text, path) from None


def _is_answered(path: str) -> bool:
    with closing(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)) as sock:
        sock.settimeout(ANSWER_SECONDS)
        try:
            sock.connect(path)
        except (ConnectionRefusedError, FileNotFoundError):
            return False
        except TimeoutError:
            # a full backlog: somebody holds it, however slow
            return True
        except OSError as error:
            text = f"a socket is there that cannot be asked: {error.strerror}"
            raise OSError(error.errno, text, path) from None
        return True
