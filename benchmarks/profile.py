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
        self._options = ["--format", "raw", "--nonblocking", "--rate", str(rate)]
        self._options += ["--duration", str(int(seconds))]
        if is_native:
            self._options.append("--native")
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
    own: Counter[str] = Counter()
    below: Counter[str] = Counter()
    for line in stacks.splitlines():
        stack, _, samples = line.rpartition(" ")
        functions = [frame.rpartition(":")[0] + ")" for frame in stack.split(";") if ":" in frame]
        if not functions:
            continue
        own[functions[-1]] += int(samples)
        below.update(dict.fromkeys(functions, int(samples)))
    total = own.total()
    click.echo(f"\n{name}: {total} samples\n   own   with callees")
    for function, count in own.most_common(top):
        click.echo(f"{count / total:6.1%} {below[function] / total:6.1%}  {function}")


@click.command()
@click.argument("name", metavar="SCENARIO")
@click.option("--seconds", default=10.0, show_default=True)
@click.option("--rate", default=250, show_default=True, help="Samples per second.")
@click.option("--top", default=30, show_default=True, help="Functions to print.")
@click.option("--native", is_flag=True, help="With the frames of C extensions (slower).")
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
