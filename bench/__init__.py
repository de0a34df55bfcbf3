"""Benchmarks of a real `pilotis serve` beside a bare ASGI application with the same SQL on the same connections."""
