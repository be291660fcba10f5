"""Framed sessions: one connection that carries many JSON-RPC calls at once, at both ends.

What every door over a stream of frames shares, whatever carries the frames; its specification is
docs/bindings/framed-session.md. `server.Session` answers calls, `client.SessionClient` makes them,
`carrier` joins either to a stream of bytes.
"""
