#!/bin/sh
# unexport.sh NAMESPACE NAME
# Takes away the volume and the export of a claim that is gone. The data stay.
set -eu
volume="nfs-$(printf '%s/%s' "$1" "$2" | sha256sum | cut -c 1-16)"
kubectl delete pv "$volume" --ignore-not-found --wait=false
file=${EXPORTS:-exports}
[ -e "$file" ] || exit 0
next=$(mktemp "$file.XXXXXX")
trap 'rm -f "$next"' EXIT
KEY=$1/$2 awk '$NF != ENVIRON["KEY"]' "$file" > "$next"
chmod 644 "$next"
mv "$next" "$file" # last: as long as the line is there, this is repeated
