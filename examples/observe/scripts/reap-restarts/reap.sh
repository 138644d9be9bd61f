#!/bin/sh
# reap.sh NAMESPACE NAME UID OWNER RESTARTS
# Deletes a Pod whose containers have been restarted more than $MAX times in all, so that its owner makes
# a new one, perhaps on another node. A Pod without an owner would not come back: it stays.
set -eu
[ -n "$4" ] || exit 0
sum=0
for restarts in $5; do sum=$((sum + restarts)); done
[ "$sum" -gt "${MAX:-100}" ] || exit 0
echo "deleting Pod $1/$2 after $sum restarts"
# Under its UID: a new Pod of this name has done nothing.
printf '{"kind":"DeleteOptions","apiVersion":"v1","preconditions":{"uid":"%s"}}' "$3" |
	kubectl delete --raw "/api/v1/namespaces/$1/pods/$2" -f - > /dev/null
