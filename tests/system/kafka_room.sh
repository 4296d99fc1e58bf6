#!/usr/bin/env bash
# Runs a test program of worker/kafka against a real Kafka of its own, on a free port, and stops that Kafka again.
#   tests/system/kafka_room.sh PROGRAM [ARGUMENTS...]
# Without arguments the test that waits for a minute, for offsets to expire, runs beside the others.
set -euo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
id="kafka-room-$$"
trap '"$root/scripts/kafka" stop --id "$id" --delete >/dev/null' EXIT
# Offsets expire after a minute, so that the refresh shows within the test.
started="$("$root/scripts/kafka" start --id "$id" --port 0 --json --set offsets.retention.minutes=1 \
  --set offsets.retention.check.interval.ms=5000 --set group.initial.rebalance.delay.ms=0 --set log.retention.check.interval.ms=1000)"
POSTHORN_TEST_KAFKA="$(python3 -c 'import json,sys; print(json.loads(sys.argv[1])["bootstrap"])' "$started")"
export POSTHORN_TEST_KAFKA POSTHORN_TEST_KAFKA_ID="$id"
if (($# > 1)); then
  "$@"
  exit
fi
slow='*QuietOffsetsOutliveTheRetention'
beside="$(mktemp)"
"$1" --gtest_filter="$slow" >"$beside" 2>&1 &
status=0
"$1" --gtest_filter="-$slow" || status=1
wait $! || status=1
cat "$beside"
rm -f "$beside"
exit "$status"
