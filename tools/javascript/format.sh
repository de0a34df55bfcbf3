#!/bin/sh
# Format the JavaScript of the product; with `--check`, name the files that are not formatted instead.
set -eu
cd "$(dirname "$0")/../.."
if ! command -v npm >/dev/null; then
    echo "JavaScript is not formatted: that needs npm." >&2
    exit 0
fi
# With this, markup that the plugin cannot read is an error; without, it would stay as it is.
export PRETTIER_DEBUG=1
exec sh tools/javascript/run.sh prettier --config tools/javascript/prettier.json --log-level warn "${1:---write}" \
    "src/**/*.js" "tests/console/modules/*.js" "tools/javascript/*.js" "!**/vendor/**" "!src/pilotis/cli/templates/**" \
    "!src/pilotis/http/reference/client/**"
