#!/usr/bin/env bash
# await_run.sh PRESET: what the unit tests of build/PRESET came to, as soon as whoever builds and runs them (scripts/test) lets its lock go.
set -euo pipefail
preset="$1"
flock "build/$preset.lock" true
if ! [ -e "build/$preset.result" ]; then
  echo "build/$preset could not be built:" >&2
  tail -n 60 build/sanitizers.log >&2
  exit 1
fi
cat "build/$preset.tests.log"
exit "$(cat "build/$preset.result")"
