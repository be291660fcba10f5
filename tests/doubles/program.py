"""The agent of the contract suite as a program: `program.py text` or `program.py events`.

The first word of the message is the command, as in `tests.doubles.agents`; any other is an echo.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

ASKS = 10


class Text:
    """Prints text."""

    def __init__(self) -> None:
        self.words = sys.stdin.read().split()
        self.is_answer = os.environ["A2A_TURN"] != "1"

    def chunk(self, text: str) -> None:
        sys.stdout.write(text)
        sys.stdout.flush()

    def ask(self, question: str) -> None:
        self.chunk(question + "\n")
        sys.exit(ASKS)

    def end(self) -> None:
        sys.exit(0)


class Events:
    """Prints events."""

    def __init__(self) -> None:
        self.given = json.loads(sys.stdin.readline())
        self.message = self.given["request"]["message"]
        self.words = " ".join(p.get("text", "") for p in self.message["parts"]).split()
        self.is_answer = "task" in self.given
        self._is_begun = False

    def event(self, **event: Any) -> None:
        sys.stdout.write(json.dumps(event) + "\n")
        sys.stdout.flush()

    def status(self, state: str, text: str = "") -> None:
        status: dict[str, Any] = {"state": f"TASK_STATE_{state}"}
        if text:
            status["message"] = self.say(text)
        self.event(statusUpdate={"status": status})

    def say(self, text: str) -> dict[str, Any]:
        return {"messageId": os.urandom(8).hex(), "role": "ROLE_AGENT", "parts": [{"text": text}]}

    def chunk(self, text: str) -> None:
        artifact = {"artifactId": "chunks", "parts": [{"text": text}]}
        self.event(artifactUpdate={"artifact": artifact, "append": self._is_begun})
        self._is_begun = True

    def ask(self, question: str) -> None:
        self.status("INPUT_REQUIRED", question)
        sys.exit(0)

    def end(self) -> None:
        self.status("COMPLETED")
        sys.exit(0)


Job = Text | Events


def echo(job: Job) -> None:
    if isinstance(job, Events):
        parts, metadata = job.message["parts"], job.message.get("metadata", {})
        artifact = {"artifactId": "echo", "parts": parts, "metadata": metadata}
        job.event(artifactUpdate={"artifact": artifact})
    else:
        job.chunk(" ".join(job.words))


def direct(job: Job) -> None:
    assert isinstance(job, Events)
    job.event(message=job.say(" ".join(job.words[1:])))
    sys.exit(0)


def slow(job: Job) -> None:
    for number in range(int(job.words[1])):
        time.sleep(float(job.words[2]) / 1000)
        job.chunk(f"chunk {number} ")


def burst(job: Job) -> None:
    size = int(job.words[2])
    for number in range(int(job.words[1])):
        job.chunk(f"{number} ".ljust(size, "."))


def ask(job: Job) -> None:
    job.ask("Which colour?")


def fail(job: Job) -> None:
    job.chunk("so far so good")
    raise ValueError(" ".join(job.words[1:]))


def die(job: Job) -> None:
    job.chunk("so far so good")
    os.kill(os.getpid(), signal.SIGKILL)


def tick(job: Job) -> None:
    job.chunk("ticking")
    while True:
        with open(job.words[1], "a") as file:
            file.write("tick\n")
        time.sleep(float(job.words[2]) / 1000)


def stubborn(job: Job) -> None:
    """`stubborn SECONDS PATH MILLISECONDS`; it does not end by itself."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    del job.words[0]
    tick(job)


def block(job: Job) -> None:
    job.chunk("blocking")
    time.sleep(float(job.words[1]))


def family(job: Job) -> None:
    """A child and a grandchild that tick on, each in a file of its own; nobody waits for them."""
    path = job.words[1]
    loop = 'while :; do echo tick >> "$0"; sleep 0.01; done'
    subprocess.Popen(["sh", "-c", f"({loop}) & {loop}", path], stdin=subprocess.DEVNULL)
    if job.words[0] == "family":
        tick(job)
    job.chunk("left")


COMMANDS: dict[str, Callable[[Job], None]] = {
    "message": direct,
    "slow": slow,
    "burst": burst,
    "ask": ask,
    "raise": fail,
    "die": die,
    "tick": tick,
    "stubborn": stubborn,
    "block": block,
    "family": family,
    "leave": family,
}


def main() -> None:
    job: Job = Events() if sys.argv[1] == "events" else Text()
    if job.is_answer:
        job.chunk("You said: " + " ".join(job.words))
    else:
        COMMANDS.get(job.words[0] if job.words else "", echo)(job)
    job.end()


if __name__ == "__main__":
    main()
