#!/usr/bin/env bash
# Runs a test program of the configuration sources against a Central Dogma and an etcd of its own, on free ports, stops
# them again, and compares the golden files with what such servers say.
#   tests/system/config_room.sh PROGRAM [ARGUMENTS...]
set -euo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
servers="$root/scripts/config-servers"
dogma="dogma-room-$$"
etcd="etcd-room-$$"
golden_said="$(mktemp)"
trap 'rm -f "$golden_said"; for id in "$dogma" "$etcd"; do "$servers" stop --id "$id" --delete; done' EXIT
url_of() { python3 -c 'import json,sys; print(json.loads(sys.argv[1])["url"])' "$1"; }
"$root/tests/golden/record" --check >"$golden_said" 2>&1 &
golden=$!
POSTHORN_TEST_CENTRAL_DOGMA="$(url_of "$("$servers" start central-dogma --id "$dogma" --json)")"
POSTHORN_TEST_ETCD="$(url_of "$("$servers" start etcd --id "$etcd" --json)")"
export POSTHORN_TEST_CENTRAL_DOGMA POSTHORN_TEST_ETCD POSTHORN_TEST_CENTRAL_DOGMA_ID="$dogma" POSTHORN_TEST_ETCD_ID="$etcd"
status=0
"$@" || status=1
wait $golden || status=1
cat "$golden_said"
exit "$status"
