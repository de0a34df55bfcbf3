#!/bin/sh
# Everything `make test` checks: format, lint, types and tests. Arguments go to pytest.
#
# On two cores a run takes at most twelve minutes: it does every file that costs little, and of the others those that the
# last commits touched and those whose turn it is by this commit. `make test-all` does all.
#
# The tests are distributed by `tests/longest_first.py` over three processes for each core, since many tests wait. Up to
# five tests that failed run once more by themselves: what fails again has failed; what passes is named, since a test
# that depends on chance, or a race in the program, is a fault to look into. The end names every check that failed.
set -u
cd "$(dirname "$0")/.."
bin=.venv/bin
work=$(mktemp -d)
cores=$(getconf _NPROCESSORS_ONLN)
# Which part of many equal cases is tried: `tests/whole.py`.
export TEST_SEED="${TEST_SEED-$(git rev-parse HEAD 2>/dev/null)}"

# With plenty of memory the data of the servers under test is in it: copying a cluster to a disk costs eight times as
# much, and each commit waits for a disk. What a failed test leaves, up to 5 GB, stays there until the next run of any
# checkout.
for left in /dev/shm/pilotis-"$(id -u)"-*; do
    kill -0 "$(cat "$left/run" 2>/dev/null)" 2>/dev/null || rm -rf "$left"
done
memory_gib=$(awk '/^MemAvailable/ { print int($2 / 1048576) }' /proc/meminfo 2>/dev/null)
free_gib=$(df -Pk /dev/shm 2>/dev/null | awk 'END { print int($4 / 1048576) }')
in_memory=
if [ "${memory_gib:-0}" -ge 14 ] && [ "${free_gib:-0}" -ge 12 ]; then
    # Short, since the sockets of PostgreSQL are below it, and their paths have at most 107 bytes.
    in_memory=/dev/shm/pilotis-$(id -u)-$(pwd | cksum | cut -c 1-8)
    rm -rf "$in_memory"
    mkdir "$in_memory"
    echo $$ >"$in_memory/run"
fi
end() {
    [ -s "$work/failed" ] || [ -z "$in_memory" ] || rm -rf "$in_memory"
    rm -rf "$work"
}
trap end EXIT
# The tests start hundreds of Python programs. Without files for the compiled modules each would compile all of them.
unset PYTHONDONTWRITEBYTECODE

check() {
    "$@" || echo "$*" >>"$work/failed"
}

run_tests() {
    name=$1
    shift
    $bin/pytest ${in_memory:+"--basetemp=$in_memory/$name"} --failures="$work/failed" --again="$work/again" "$@"
    # 0: all passed, 1: the file names those that failed, 5: the arguments select no test.
    case $? in 0 | 1 | 5) ;; *) echo "pytest $*" >>"$work/failed" ;; esac
}

check $bin/ruff format --check --quiet .
check $bin/ruff check --quiet .
# What differs on macOS is in the modules of Python that these import. All else, types of other modules of Pilotis among
# it, has been checked before.
check_on_darwin() {
    grep -rlE '^ *(import|from) (fcntl|os|pty|pwd|resource|select|signal|socket|sys)\b' --include='*.py' \
        --exclude-dir=templates src | xargs $bin/mypy --platform darwin --cache-dir .mypy_cache/darwin \
        --follow-imports skip --allow-subclassing-any --allow-untyped-decorators --no-warn-return-any \
        --no-warn-unused-ignores --disable-error-code call-arg
}
(check $bin/mypy; check check_on_darwin) >"$work/mypy" 2>&1 &
# Seconds of each processor as `tests/durations.json` counts them: measured, so much takes twelve minutes on two.
budget="--budget 280"
[ -z "${TEST_ALL:-}" ] || budget=
changed=$(git diff --name-only HEAD~10 -- tests 2>/dev/null)
# It counts files, not tests: a percentage would mean nothing.
run_tests all -n $((cores * 3)) --longest-first $budget --changed "$changed" -o console_output_style=classic "$@"
wait
cat "$work/mypy"
if [ -s "$work/again" ]; then
    sort -u -o "$work/again" "$work/again"
    if [ "$(wc -l <"$work/again")" -gt 5 ]; then
        cat "$work/again" >>"$work/failed"
    else
        run_tests again "@$work/again" --again="$work/failed"
        printf '\nFailed once, and ran again; each that passed then is a fault to look into:\n'
        cat "$work/again"
    fi
fi
if [ -s "$work/failed" ]; then
    printf '\nFailed, with TEST_SEED=%s:\n' "$TEST_SEED"
    sort -u "$work/failed"
    exit 1
fi
