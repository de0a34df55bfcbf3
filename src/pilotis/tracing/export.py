"""Starts and ends the tracing of a process: spans go to a collector by OTLP over HTTP."""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple

import requests
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.sampling import ALWAYS_ON

from pilotis.blobs.protocol import BlobStore
from pilotis.db.observing import Statements
from pilotis.http.api.application import Application
from pilotis.kit import spans
from pilotis.tracing.application import TracedApplication
from pilotis.tracing.blobs import trace_blobs
from pilotis.tracing.recorder import Recorder
from pilotis.tracing.statements import TracedStatements, end_batches, trace_batches

EXPORT_SECONDS = 5.0
_MAX_WAITING = 4_096


class Tracing(NamedTuple):
    """The tracing of a process."""

    recorder: Recorder
    provider: TracerProvider

    def statements(self, slow_seconds: float) -> Statements:
        """Return what counts statements and records them."""
        return TracedStatements(self.recorder, slow_seconds)

    def blobs(self, store: BlobStore) -> None:
        """Record what an object store reads and writes."""
        trace_blobs(self.recorder, store)

    def application(self, *arguments: Any, **named: Any) -> Application:
        """Return the application in front of the features."""
        return TracedApplication(self.recorder, *arguments, **named)

    async def stop(self) -> None:
        """Record nothing more, and send what waits; a collector that does not answer is not waited for for long."""
        spans.record_by(None)
        end_batches()
        await asyncio.to_thread(self.provider.shutdown)


def start(endpoint: str, ratio: float, version: str) -> Tracing:
    """Record spans from now on, and send them to `endpoint`, a collector's URL for traces.

    The exporter works in a thread of its own. Spans that it cannot send within seconds are lost, and so are those
    beyond some thousands that wait: nothing else waits for it.
    """
    resource = Resource.create({"service.name": "pilotis", "service.version": version})
    # The recorder decides; what it begins is recorded.
    provider = TracerProvider(sampler=ALWAYS_ON, resource=resource, shutdown_on_exit=False)
    # No proxy and no password of the environment, as for all requests that leave the server.
    session = requests.Session()
    session.trust_env = False
    exporter = OTLPSpanExporter(endpoint=endpoint, timeout=EXPORT_SECONDS, session=session)
    provider.add_span_processor(BatchSpanProcessor(exporter, max_queue_size=_MAX_WAITING))
    recorder = Recorder(provider.get_tracer("pilotis", version), ratio)
    spans.record_by(recorder)
    trace_batches(recorder)
    return Tracing(recorder, provider)
