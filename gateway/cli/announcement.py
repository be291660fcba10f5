"""What `serve` prints once everything is open: each door, how to reach it, and one line to try it.

The processes report both, door by door (`doors` and `reach`), so that any door has its line here.
"""

import sys
from collections.abc import Iterator, Mapping
from typing import Any


def announce(reports: Mapping[str, Mapping[str, Any]], config: Mapping[str, Any]) -> None:
    """Print the table of doors. `reports` are what the processes opened."""
    lines = [f"a2a-gateway is ready: agent {config['agent']['spec']}, store {config['store']}", ""]
    doors = [door for report in reports.values() for door in _doors(report)]
    width = max([8, *(len(name) for name, _ in doors)])
    for name, reach in doors:
        for place, example in reach:
            lines.append(f"  {name:<{width}} {place}".rstrip())
            if example:
                lines.append(f"  {'':<{width}} try: {example}")
    metrics = [
        f"{process} http://{report['metrics']}/metrics"
        for process, report in reports.items()
        if "metrics" in report
    ]
    if metrics:
        lines.append(f"  {'metrics':<{width}} {', '.join(metrics)}")
    sys.stdout.write("\n".join(lines) + "\n\n")
    sys.stdout.flush()


def _doors(report: Mapping[str, Any]) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Each door with its places; one that listens nowhere stands with its name alone."""
    for name, addresses in report.get("doors", {}).items():
        places = report.get("reach", {}).get(name) or [(address, "") for address in addresses]
        yield name, [(place, example) for place, example in places] or [("", "")]
