"""Side-by-side measurements of the gateway and a2a-sdk's own server; see docs/benchmarks.md.

`python -m benchmarks` runs them. Nothing is imported here: the servers under test are started
with `-m benchmarks.…`, and their memory is one of the figures.
"""
