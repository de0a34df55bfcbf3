"""Benchmarks of a real `pilotis serve`, compared with a bare ASGI application with the same SQL and connections."""
