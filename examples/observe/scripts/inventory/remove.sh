#!/bin/sh
# remove.sh NODE
# Takes the line of this node out of the file $INVENTORY.
set -eu
file=${INVENTORY:-inventory.txt}
[ -e "$file" ] || exit 0
next=$(mktemp "$file.XXXXXX")
trap 'rm -f "$next"' EXIT
KEY=$1 awk '$1 != ENVIRON["KEY"]' "$file" > "$next"
chmod 644 "$next"
mv "$next" "$file"
