"""`python -m pilotis` runs the command `pilotis`."""

from pilotis.cli import main

main()
