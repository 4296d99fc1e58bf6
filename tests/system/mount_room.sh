#!/usr/bin/env bash
# Runs a test program in a mount namespace of its own, where it may mount and nobody else sees it: as root, or else as root of a
# user namespace. Ends with 77 where neither is allowed, as in containers without CAP_SYS_ADMIN.
#   tests/system/mount_room.sh PROGRAM [ARGUMENTS...]
set -euo pipefail
for way in "--mount" "--user --map-root-user --mount"; do
  # shellcheck disable=SC2086
  if unshare $way -- mount -t tmpfs none /mnt 2>/dev/null; then
    # shellcheck disable=SC2086
    exec unshare $way -- "$@"
  fi
done
echo "mounting is not allowed here: not run" >&2
exit 77
