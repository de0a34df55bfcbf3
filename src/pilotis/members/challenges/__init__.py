"""Puzzles that a program solves before it signs up, signs in or asks for mails: cheap once, dear a million times."""
