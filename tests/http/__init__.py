"""Tests of the endpoint layer."""  # noqa: A005 - named after the package it tests
