# Sourced by test, demo and bench: progress lines with the seconds since the start, and steps whose output goes to a log.

progress() { printf '[%4ds] %s\n' "$SECONDS" "$*"; }

fail() { printf 'error: %s\n' "$*" >&2; exit 1; }

# step WHAT LOG COMMAND...: runs it with its output in LOG; every 20 s a line says how far it is; on failure shows what went wrong.
step() {
  local what="$1" log="$2" pid next status=0 at
  shift 2
  progress "$what ..."
  mkdir -p "$(dirname "$log")"
  "$@" >"$log" 2>&1 &
  pid=$!
  next=$((SECONDS + 20))
  while kill -0 "$pid" 2>/dev/null; do
    sleep 0.5
    if ((SECONDS >= next)); then
      at="$(tail -n 1 "$log" | grep -oE '^\[[0-9]+/[0-9]+\]' || true)"
      progress "$what ${at:-...}"
      next=$((SECONDS + 20))
    fi
  done
  wait "$pid" || status=$?
  if ((status)); then
    { grep -nE 'error:|FAILED:|CMake Error|undefined reference|ninja: error' "$log" | head -n 20
      echo "  ..."
      tail -n 25 "$log"; } >&2
    fail "$what failed; the whole output is in $log"
  fi
}

# configure_and_build PRESET TARGET [CMAKE ARGS...]: in build/PRESET, with ccache when it is there.
configure_and_build() {
  local preset="$1" target="$2"
  shift 2
  export CCACHE_SLOPPINESS="${CCACHE_SLOPPINESS:-pch_defines,time_macros}"  # or it would not keep the tests
  command -v ccache >/dev/null && set -- -DCMAKE_CXX_COMPILER_LAUNCHER=ccache "$@"
  step "configuring $preset" "build/$preset.configure.log" cmake --preset "$preset" "$@"
  step "building $preset" "build/$preset.build.log" cmake --build --preset "$preset" --target "$target" -j "${JOBS:-$(nproc)}"
}
