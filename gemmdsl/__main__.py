"""`python -m gemmdsl` is the `gemmdsl` command."""

from gemmdsl.cli import main

main()
