#!/bin/sh
# notify.sh NODE READY
# Runs $NOTIFY with a message when a node stops being ready, and when it is ready again. What has been
# said is kept in the directory $STATE, after it has been said: so it may be said twice, but never not.
set -eu
mkdir -p "${STATE:=not-ready}"
notify() { if [ -n "${NOTIFY:-}" ]; then "$NOTIFY" "$1"; else echo "$1"; fi; }
if [ "$2" = True ]; then
	[ ! -e "$STATE/$1" ] && exit 0
	notify "node $1 is ready again"
	rm "$STATE/$1"
else
	[ -e "$STATE/$1" ] && exit 0
	notify "node $1 is not ready (Ready is ${2:-not known})"
	touch "$STATE/$1"
fi
