"""`python -m gateway.cli`, the same as `a2a-gateway`."""

from gateway.cli import main

main()
