#!/usr/bin/env bash
# run_when_built.sh PRESET CTEST: the unit tests of build/PRESET, as soon as whoever builds it (scripts/test) lets its lock go.
set -euo pipefail
preset="$1" ctest="$2"
flock "build/$preset.lock" true
if ! [ -e "build/$preset.built" ]; then
  echo "build/$preset could not be built:" >&2
  tail -n 60 build/sanitizers.log >&2
  exit 1
fi
exec "$ctest" --preset "$preset" --no-tests=error
