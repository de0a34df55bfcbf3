"""Ids, clock, errors, crypto, JSON: pure helpers that do not depend on the rest of Pilotis."""
