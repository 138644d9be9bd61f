#!/bin/sh
# delete.sh NAMESPACE NAME
# Deletes the Ingress of a Service that is gone, if it is ours.
set -eu
exec kubectl -n "$1" delete ingresses -l fromservice=true --field-selector "metadata.name=$2" --wait=false
