#!/bin/sh
# annotate.sh NAMESPACE EVENT POD UID MESSAGE
# Writes why a Pod could not be scheduled to its annotation "failed-scheduling", where its owner looks.
set -eu
now=$(kubectl -n "$1" get pod "$3" --ignore-not-found -o 'jsonpath={.metadata.uid}')
[ "$now" = "$4" ] || exit 0 # gone, or another Pod of this name
kubectl -n "$1" annotate pod "$3" --overwrite "failed-scheduling=$5"
