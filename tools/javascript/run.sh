#!/bin/sh
# Run a command with the programs of `package.json`, such as `run.sh tsc --version`. npm first installs what `package-lock.json` pins by
# its hashes, where that has changed.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
if ! cmp -s "$here/package-lock.json" "$here/node_modules/installed.json"; then
    npm ci --no-audit --no-fund --ignore-scripts --prefer-offline --fetch-retries=8 --fetch-timeout=120000 \
        --prefix "$here" >/dev/null
    cp "$here/package-lock.json" "$here/node_modules/installed.json"
fi
PATH=$here/node_modules/.bin:$PATH exec "$@"
