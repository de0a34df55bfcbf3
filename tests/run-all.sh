#!/bin/sh
# Everything `make test` checks: format, lint, types, then the tests.
set -eu
cd "$(dirname "$0")/.."
bin=.venv/bin
$bin/ruff format --check --quiet .
$bin/ruff check --quiet .
$bin/mypy
exec $bin/pytest "$@"
