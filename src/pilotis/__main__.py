"""`python -m pilotis` is the command `pilotis`."""

from pilotis.cli import main

main()
