"""An agent that is a program, run once for each message (`command:PROGRAM [ARGUMENT...]`).

- `agent`: runs turns
- `given`: what the program gets, on stdin and in its environment
- `output`: what it prints, as events of the turn
- `pipes`: the core's ends of its stdin, stdout and stderr
- `finding`: whether there is such a program, before any message comes
- `keeper`: starts and ends programs, by a process of its own, `keeper_process`

Guide: docs/agents.md. Layer: agents.
"""
