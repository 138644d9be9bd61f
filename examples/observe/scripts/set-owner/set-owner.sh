#!/bin/sh
# set-owner.sh NAMESPACE VERSION OWNER DELETED
# Gives a namespace without an owner the owner $OWNER. Who sets another one meanwhile wins: the
# version has changed then, kubectl fails, and the next run sees the owner.
set -eu
[ -z "$3" ] && [ -z "$4" ] || exit 0
kubectl annotate namespace "$1" --resource-version="$2" "owner=${OWNER:-nobody}"
