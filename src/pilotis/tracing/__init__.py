"""Traces by OpenTelemetry, with `pilotis[otel]`: imported only where `otel_endpoint` is set."""
