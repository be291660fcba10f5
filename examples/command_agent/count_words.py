#!/usr/bin/env python3
"""A program that speaks JSON: one request on stdin, one event a line on stdout. It needs nothing
but Python.

    A2A_GATEWAY_AGENT__COMMAND__OUTPUT=events \\
        a2a-gateway serve --agent command:examples/command_agent/count_words.py
"""

import base64
import json
import sys
import uuid


def emit(**event: object) -> None:
    """One event, in the JSON form of A2A's StreamResponse. The gateway fills in ids."""
    print(json.dumps(event), flush=True)


def main() -> None:
    """Count the words of every text and text file of the message."""
    request = json.loads(sys.stdin.readline())
    parts = request["request"]["message"]["parts"]
    if not parts[0].get("text", "x").strip():
        said = {"parts": [{"text": "Send me a text."}]}
        emit(message={"messageId": str(uuid.uuid4()), "role": "ROLE_AGENT", **said})
        return
    emit(statusUpdate={"status": {"state": "TASK_STATE_WORKING"}})
    for number, part in enumerate(parts):
        text = part.get("text") or base64.b64decode(part.get("raw", "")).decode("utf-8", "replace")
        found = {"name": part.get("filename", "message"), "words": len(text.split())}
        emit(artifactUpdate={"artifact": {"artifactId": f"{number}", "parts": [{"data": found}]}})
    # the end, with exit code 0, completes the task


if __name__ == "__main__":
    main()
