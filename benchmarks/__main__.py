"""`python -m benchmarks`: run the scenarios, print the table, write results.json."""

import asyncio
import json
import platform
import resource
import sys
from datetime import UTC, datetime
from fnmatch import fnmatch
from importlib.metadata import version
from pathlib import Path

import click
import psutil
import uvloop
from rich.console import Console
from rich.table import Table

from benchmarks import isolation, latency, link, memory, programs, stdio, streams, unary
from benchmarks.load import LoadError
from benchmarks.scenario import Figure, Measure, Result, Scenario, Settings
from benchmarks.servers import ServerError

SCENARIOS: list[Scenario] = [
    *unary.SCENARIOS,
    *streams.SCENARIOS,
    *latency.SCENARIOS,
    *link.SCENARIOS,
    *isolation.SCENARIOS,
    *memory.SCENARIOS,
    *stdio.SCENARIOS,
    *programs.SCENARIOS,
]
RESULTS = Path(__file__).parent / "results.json"
BUSY_GENERATOR = 0.7
MACHINE: dict[str, object] = {
    "cores": psutil.cpu_count(),
    "python": platform.python_version(),
    "a2a-sdk": version("a2a-sdk"),
    "grpcio": version("grpcio"),
}


@click.command()
@click.option("--only", multiple=True, metavar="PATTERN", help="Scenarios by name, * allowed.")
@click.option("--runs", default=3, show_default=True, help="Figures are medians of so many runs.")
@click.option(
    "--quick", is_flag=True, help="One short run, not written down: whether it works, not how fast."
)
@click.option("--list", "is_list", is_flag=True, help="Only name the scenarios.")
@click.option("--output", default=RESULTS, type=click.Path(path_type=Path), show_default=True)
def main(only: tuple[str, ...], runs: int, quick: bool, is_list: bool, output: Path) -> None:
    """Measure the gateway and a2a-sdk's server side by side."""
    chosen = [s for s in SCENARIOS if not only or any(fnmatch(s.name, p) for p in only)]
    if not chosen:
        raise click.UsageError(f"no scenario is called {' or '.join(only)}; see --list")
    if is_list:
        for scenario in chosen:
            click.echo(f"{scenario.name:20} {scenario.title} ({scenario.against})")
        return
    _allow_open_files()
    settings = Settings(quick=True, seconds=1.5, warm_up=0.5) if quick else Settings()
    results = [_run(s, settings, 1 if quick else runs) for s in chosen]
    done = [result for result in results if result]
    console = Console()
    # Rows stay whole where the table goes to a file.
    console.width = max(console.width, 110)
    console.print(_table(done))
    if not quick:
        _write(output, done)
    if len(done) < len(chosen) or not all(result.ok for result in done):
        sys.exit(1)


def _write(path: Path, results: list[Result]) -> None:
    """Replace what was measured, keep the rest, in the order of the table."""
    kept = {e["scenario"]: e for e in json.loads(path.read_text())} if path.exists() else {}
    at = datetime.now(UTC).isoformat(timespec="seconds")
    kept |= {r.scenario.name: r.to_json() | {"at": at} | MACHINE for r in results}
    entries = [kept[s.name] for s in SCENARIOS if s.name in kept]
    path.write_text(json.dumps(entries, indent=1, ensure_ascii=False) + "\n")


def _run(scenario: Scenario, settings: Settings, runs: int) -> Result | None:
    """All runs of one scenario, ours and the peer's by turns; None where it broke."""
    result = Result(scenario)
    try:
        for number in range(runs):
            click.echo(f"{scenario.name}: run {number + 1} of {runs} ...", err=True)
            ours = measured(scenario.ours, settings)
            peer = measured(scenario.peer, settings) if scenario.peer else None
            result.runs.append((ours, peer))
            if ours.generator_share > BUSY_GENERATOR:
                click.echo("  the load generator was busy: it may be the limit", err=True)
    except (LoadError, ServerError, TimeoutError) as error:
        click.echo(f"{scenario.name} failed: {type(error).__name__}: {error}", err=True)
        return None
    return result


def measured(measure: Measure, settings: Settings) -> Figure:
    """One measurement, in an event loop of its own."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:

        async def awaited() -> Figure:
            return await measure(settings)

        return runner.run(awaited())


def _table(results: list[Result]) -> Table:
    table = Table()
    for heading in ("scenario", "ours", "peer", "unit", "ratio", "target", "met"):
        table.add_column(heading, justify="left" if heading == "scenario" else "right")
    for result in results:
        scenario, entry = result.scenario, result.to_json()
        ratio = "" if result.ratio is None else f"{result.ratio:.2f} x"
        table.add_row(
            f"{scenario.title}\n  [dim]{scenario.name}, against {scenario.against}[/]",
            f"{entry['ours']:,g}",
            "" if result.peer is None else f"{entry['peer']:,g}",
            scenario.unit,
            ratio,
            scenario.target.text(scenario.unit),
            "[green]yes[/]" if result.ok else "[red]no[/]",
        )
    return table


def _allow_open_files() -> None:
    """A thousand streams need more than the usual soft limit."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 65_536), hard))


if __name__ == "__main__":
    main()
