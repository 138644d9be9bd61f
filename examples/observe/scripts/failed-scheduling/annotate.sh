#!/bin/sh
# annotate.sh NAMESPACE EVENT POD UID MESSAGE TIME...
# Writes when a Pod could not be scheduled, and why, to annotations of its Deployment, where people look who
# wonder why a rollout does not go on; of the Pod itself, if it is none of a Deployment. The last TIME counts.
set -eu
namespace=$1 pod=$3 uid=$4 message=$5
shift 5
time=
for t; do case $t in [0-9]*) time=$t ;; esac; done # some are empty, or null
[ -n "$time" ] || exit 0

# owner TYPE NAME KIND prints the name of the controller of that kind.
owner() {
	kubectl -n "$namespace" get "$1" "$2" --ignore-not-found \
		-o "jsonpath={.metadata.ownerReferences[?(@.controller==true)].kind} {.metadata.ownerReferences[?(@.controller==true)].name}" |
		sed -n "s/^$3 //p"
}

now=$(kubectl -n "$namespace" get pod "$pod" --ignore-not-found -o 'jsonpath={.metadata.uid}')
[ "$now" = "$uid" ] || exit 0 # deleted, or another Pod of this name
type=pod name=$pod
replicas=$(owner pod "$pod" ReplicaSet)
if [ -n "$replicas" ]; then
	deployment=$(owner replicaset "$replicas" Deployment)
	if [ -n "$deployment" ]; then type=deployment name=$deployment; fi
fi
before=$(kubectl -n "$namespace" get "$type" "$name" --ignore-not-found -o 'jsonpath={.metadata.annotations.failed-scheduling}')
latest=$(printf '%s\n' "$before" "$time" | LC_ALL=C sort | tail -n 1)
[ "$latest" != "$before" ] || exit 0 # another Pod's is as new
kubectl -n "$namespace" annotate "$type" "$name" --overwrite \
	"failed-scheduling=$time" "failed-scheduling-message=$pod: $message"
