#!/bin/sh
# tidy.sh NAMESPACE NAME UID PHASE FINISHED
# Deletes a Pod whose containers have all ended well, the last one more than $AFTER seconds ago. One that is
# younger is left to a later run: --resync-period says how much later.
set -eu
[ "$4" = Succeeded ] && [ -n "$5" ] || exit 0
limit=$(date -u -d "@$(($(date +%s) - ${AFTER:-3600}))" +%Y-%m-%dT%H:%M:%SZ)
# FINISHED are the times of all containers: the greatest of them and the limit.
last=$(for time in $5 "$limit"; do echo "$time"; done | LC_ALL=C sort | tail -n 1)
[ "$last" = "$limit" ] || exit 0
echo "deleting Pod $1/$2, which has been done for ${AFTER:-3600} s"
# Under its UID: a new Pod of this name has just begun.
printf '{"kind":"DeleteOptions","apiVersion":"v1","preconditions":{"uid":"%s"}}' "$3" |
	kubectl delete --raw "/api/v1/namespaces/$1/pods/$2" -f - > /dev/null
