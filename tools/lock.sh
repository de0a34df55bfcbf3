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
# Every system on which the two commands work has wheels for all of it.
for platform in x86_64-manylinux_2_28 aarch64-manylinux_2_28 aarch64-apple-darwin; do
    for python in 3.11 3.12 3.13 3.14; do
        for lock in requirements.lock requirements-dev.lock; do
            "$uv" pip install --quiet --dry-run --target "${TMPDIR:-/tmp}/pilotis-lock" --python-platform "$platform" \
                --python-version "$python" --only-binary :all: --require-hashes -r "$lock" ||
                { echo "$lock cannot be installed on $platform with Python $python." >&2; exit 1; }
        done
    done
done
