"""Benchmarks of a real `pilotis serve`, compared with a bare ASGI application with the same SQL and connections."""

import os

# A server whose modules are compiled at each start would start later than a user's.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
