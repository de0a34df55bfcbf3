"""Ids, clock, errors, crypto, JSON: pure helpers that know nothing of Pilotis."""
