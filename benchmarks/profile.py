"""`python -m benchmarks.profile SCENARIO`: where the processes of a server spend their time.

Runs one measurement of the scenario with py-spy on each process of the server, and prints the
functions with the most time of their own. The figures of such a run are slower than real ones.
"""

import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import click

from benchmarks import servers
from benchmarks.__main__ import SCENARIOS, measured
from benchmarks.scenario import Settings
from benchmarks.servers import Server

START_SECONDS = 2.0
PY_SPY = str(Path(sys.executable).with_name("py-spy"))


class Profiler:
    """py-spy on every process of the first server that starts."""

    def __init__(self, directory: Path, seconds: float, rate: int, is_native: bool) -> None:
        self._directory = directory
        self._options = ["--format", "raw", "--threads", "--rate", str(rate)]
        self._options += ["--duration", str(int(seconds))]
        # Native frames can only be read from a process that stands still.
        self._options.append("--native" if is_native else "--nonblocking")
        self.running: list[tuple[str, Path, subprocess.Popen[bytes]]] = []

    def __call__(self, server: Server) -> None:
        """Attach."""
        if self.running:
            return
        for process in server.processes():
            file = self._directory / f"{process.pid}.txt"
            spy = subprocess.Popen(
                [PY_SPY, "record", *self._options, "-o", str(file), "-p", str(process.pid)],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
            )
            words = [word for word in process.cmdline() if not word.startswith("/")]
            self.running.append((" ".join(words[:6]), file, spy))

    def report(self, top: int) -> None:
        """Wait for py-spy, then print."""
        for name, file, spy in self.running:
            _, errors = spy.communicate()
            if not file.exists():
                click.echo(f"\n{name}: py-spy failed: {errors.decode(errors='replace')[-500:]}")
                continue
            _print(name, file.read_text(), top)
        click.echo(f"\nstacks, one a line, for flame graphs: {self._directory}")


def _print(name: str, stacks: str, top: int) -> None:
    threads: dict[str, Counter[tuple[str, ...]]] = {}
    for line in stacks.splitlines():
        stack, _, samples = line.rpartition(" ")
        thread, *frames = stack.split(";")
        # without the line numbers: "name (file)"
        functions = [f"{frame.rpartition(':')[0]})" for frame in frames if ":" in frame]
        threads.setdefault(thread, Counter())[tuple(functions or frames)] += int(samples)
    total = sum(stacks.total() for stacks in threads.values())
    click.echo(f"\n{name}: {total} samples")
    for thread, seen in sorted(threads.items(), key=lambda item: -item[1].total()):
        if seen.total() > total / 50:
            click.echo(f"  {thread}, {seen.total() / total:.0%}\n   own   with callees")
            _print_thread(seen, total, top)


def _print_thread(stacks: Counter[tuple[str, ...]], total: int, top: int) -> None:
    own: Counter[str] = Counter()
    below: Counter[str] = Counter()
    for functions, samples in stacks.items():
        if not functions:
            continue
        own[functions[-1]] += samples
        below.update(dict.fromkeys(functions, samples))
    for function, count in own.most_common(top):
        if count * 500 > total:
            click.echo(f"{count / total:6.1%} {below[function] / total:6.1%}  {function}")


@click.command()
@click.argument("name", metavar="SCENARIO")
@click.option("--seconds", default=10.0, show_default=True)
@click.option("--rate", default=250, show_default=True, help="Samples per second.")
@click.option("--top", default=30, show_default=True, help="Functions to print.")
@click.option(
    "--native", is_flag=True, help="With the frames of C extensions; far slower: use --rate 50."
)
@click.option("--peer", "is_peer", is_flag=True, help="Look at the peer, not at ours.")
def main(name: str, seconds: float, rate: int, top: int, native: bool, is_peer: bool) -> None:
    """Profile the processes of a server during SCENARIO (names: python -m benchmarks --list)."""
    scenario = next((s for s in SCENARIOS if s.name == name), None)
    if scenario is None:
        sys.exit(f"no scenario is called {name!r}; python -m benchmarks --list names them")
    measure = (scenario.peer if is_peer else None) or scenario.ours
    directory = Path(tempfile.mkdtemp(prefix="a2a-gateway-profile-"))
    profiler = Profiler(directory, seconds, rate, native)
    servers.watchers.append(profiler)
    settings = Settings(seconds=seconds, warm_up=START_SECONDS)
    figure = measured(measure, settings)
    click.echo(f"{scenario.title}: {figure.value:.4g} {scenario.unit} while profiled")
    profiler.report(top)


if __name__ == "__main__":
    main()
