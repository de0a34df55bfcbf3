#!/bin/sh
# Resolves pyproject.toml into the two lock files: every version pinned, every file hashed, no index address.
set -eu
cd "$(dirname "$0")/.."
uv=${UV:-.venv/bin/uv}
resolve() { "$uv" pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-annotate --no-header "$@"; }
printf 'flit_core>=3.12,<4\n' | resolve pyproject.toml - --output-file requirements.lock
resolve --group dev --constraint requirements.lock --output-file requirements-dev.lock
# Its dependencies cannot stand beside ours, so tests install it by itself.
printf 'openapi-python-client>=0.29\n' | resolve - --output-file tests/clients/requirements.lock
