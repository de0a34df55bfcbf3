"""Deliveries: every committed event arrives at least once, under one id, signed; no other event arrives."""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping
from typing import NamedTuple

from tests.cluster.checkers.history import Finding, Outcome


class Delivery(NamedTuple):
    """A request that a receiver got: its `webhook-id`, what the event is about, its body, whether it was signed."""

    message: str
    subject: Hashable
    body: bytes
    signed: bool


def check_deliveries(events: Mapping[Hashable, Outcome], received: Iterable[Delivery]) -> list[Finding]:
    """Compare what arrived with the changes that emit one event each; an unknown outcome is to be resolved before."""
    messages: dict[Hashable, set[str]] = defaultdict(set)
    bodies: dict[str, set[bytes]] = defaultdict(set)
    findings = []
    for delivery in received:
        messages[delivery.subject].add(delivery.message)
        bodies[delivery.message].add(delivery.body)
        if not delivery.signed:
            findings.append(Finding("deliveries", f"{delivery.message} has a wrong signature"))
    for subject, outcome in events.items():
        if outcome is Outcome.ACKNOWLEDGED and subject not in messages:
            findings.append(Finding("deliveries", f"{subject} was committed and never delivered"))
    for subject, ids in messages.items():
        if events.get(subject, Outcome.REFUSED) is Outcome.REFUSED:
            findings.append(Finding("deliveries", f"{subject} was delivered and never committed"))
        if len(ids) > 1:
            findings.append(Finding("deliveries", f"{subject} was delivered under {len(ids)} ids"))
    for message, texts in bodies.items():
        if len(texts) > 1:
            findings.append(Finding("deliveries", f"{message} has {len(texts)} different bodies"))
    return findings
