#!/bin/sh
# probe.sh TAG [SECONDS] - a task that leaves a trace: lines `start`, `end` and, when another of the same TAG is
# still at work, `overlap`, each written to $PROBE_FILE by one append.
#
# PROBE_GATE   a file: it waits until nobody holds that file's lock
# PROBE_DEAF   it ignores SIGTERM
# PROBE_EXIT   its exit status
set -u
case ${1:--h} in
-h | --help) sed -n '2,/^[^#]/{s/^# \{0,1\}//p;}' "$0"; exit 0 ;;
esac
tag=$1
seconds=${2:-0}
[ -z "${PROBE_DEAF:-}" ] || trap '' TERM

line() {
	at=$(date +%s.%N)
	printf '%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n' "$1" "$tag" "${PGRAB_TASK_ID:-}" "${PGRAB_FIRE_AT:-}" \
		"${PGRAB_ATTEMPT:-}" "${PGRAB_FENCE:-}" $$ "$at" >>"$PROBE_FILE"
}

# Held by this shell and by whatever it starts, so an orphan of a killed shell counts as still at work.
exec 9>>"$PROBE_FILE.$tag.lock"
flock -n 9 || line overlap
line start
[ -z "${PROBE_GATE:-}" ] || flock -s "$PROBE_GATE" true
[ "$seconds" = 0 ] || sleep "$seconds"
line end
exit "${PROBE_EXIT:-0}"
