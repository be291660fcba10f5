"""What `serve` prints once everything is open: each door, and one line to try it."""

import json
import sys
from collections.abc import Mapping
from typing import Any

DEMO = ("demo", "gateway.agents.demo:agent")


def announce(reports: Mapping[str, Mapping[str, Any]], config: Mapping[str, Any]) -> None:
    """Print the table of doors. `reports` are what the processes opened."""
    lines = [f"a2a-gateway is ready: agent {config['agent']['spec']}, store {config['store']}", ""]
    doors = [
        (name, address)
        for report in reports.values()
        for name, addresses in report.get("doors", {}).items()
        for address in addresses
    ]
    has_access = any(config["access"][kind] for kind in ("tokens", "api_keys", "basic"))
    for name, address in doors:
        lines.append(f"  {name:<8} {_shown(name, address, config)}")
        lines.append(f"           try: {_example(name, address, config, has_access)}")
    metrics = [
        f"{process} http://{report['metrics']}/metrics"
        for process, report in reports.items()
        if "metrics" in report
    ]
    if metrics:
        lines.append(f"  metrics  {', '.join(metrics)}")
    sys.stdout.write("\n".join(lines) + "\n\n")
    sys.stdout.flush()


def _shown(name: str, address: str, config: Mapping[str, Any]) -> str:
    if name != "http" or address.startswith("unix:"):
        return address
    return f"{_scheme(config)}://{address}{config['transports'][name]['path']}"


def _scheme(config: Mapping[str, Any]) -> str:
    return "https" if config["transports"]["http"]["tls"] else "http"


def _message(config: Mapping[str, Any]) -> str:
    # the demo knows this word, and answers with a stream that one can watch
    text = "stream" if config["agent"]["spec"] in DEMO else "hello"
    part = {"messageId": "1", "role": "ROLE_USER", "parts": [{"text": text}]}
    return f"'{json.dumps({'message': part}, separators=(',', ':'))}'"


def _example(name: str, address: str, config: Mapping[str, Any], has_access: bool) -> str:
    access = " -H 'Authorization: Bearer TOKEN'" if has_access else ""
    if name == "grpc":
        target = address if not address.startswith("unix:") else f"-unix {address[5:]}"
        tls = "" if config["transports"][name]["tls"] else "-plaintext "
        return (
            f"grpcurl {tls}-H 'a2a-version: 1.0'{access} -d {_message(config)} {target} "
            "lf.a2a.v1.A2AService/SendStreamingMessage"
        )
    base = f"{_scheme(config)}://{address}"
    if address.startswith("unix:"):
        base = f"--unix-socket {address[5:]} {_scheme(config)}://localhost"
    path = config["transports"][name]["path"].rstrip("/")
    return (
        f"curl -N {base}{path}/message:stream -H 'A2A-Version: 1.0'{access} "
        f"-H 'Content-Type: application/json' -d {_message(config)}"
    )
