#!/bin/sh
# reap.sh NAMESPACE NAME UID OWNER RESTARTS
# Deletes a Pod whose containers have been restarted more than $MAX times in all, so that its owner makes
# a new one, perhaps on another node. A Pod without an owner would not come back: it stays. Before the Pod
# goes, an Event says so in its namespace, and $NOTIFY, if set, is run with a message.
set -eu
[ -n "$4" ] || exit 0
sum=0
for restarts in $5; do sum=$((sum + restarts)); done
[ "$sum" -gt "${MAX:-100}" ] || exit 0
message="Pod $1/$2 of $4 is deleted after $sum restarts"
if [ -z "$(kubectl -n "$1" get event "reaped-$3" --ignore-not-found -o name)" ]; then
	if [ -n "${NOTIFY:-}" ]; then "$NOTIFY" "$message"; fi
	now=$(date -u +%Y-%m-%dT%H:%M:%SZ)
	kubectl create -f - > /dev/null <<YAML
apiVersion: v1
kind: Event
metadata:
  name: reaped-$3
  namespace: $1
involvedObject:
  apiVersion: v1
  kind: Pod
  namespace: $1
  name: $2
  uid: $3
type: Warning
reason: Reaped
message: deleted after $sum restarts, so that its owner makes a new one
source:
  component: reap-restarts
firstTimestamp: $now
lastTimestamp: $now
count: 1
YAML
fi
echo "$message"
# Under its UID: a new Pod of this name has done nothing.
printf '{"kind":"DeleteOptions","apiVersion":"v1","preconditions":{"uid":"%s"}}' "$3" |
	kubectl delete --raw "/api/v1/namespaces/$1/pods/$2" -f - > /dev/null
