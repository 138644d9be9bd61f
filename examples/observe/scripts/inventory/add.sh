#!/bin/sh
# add.sh NODE ADDRESS
# Keeps the line "NODE ADDRESS" in the file $INVENTORY, and no other one for this node.
set -eu
file=${INVENTORY:-inventory.txt}
touch "$file"
next=$(mktemp "$file.XXXXXX")
trap 'rm -f "$next"' EXIT
KEY=$1 awk '$1 != ENVIRON["KEY"]' "$file" > "$next"
printf '%s %s\n' "$1" "${2:-none}" >> "$next"
LC_ALL=C sort -o "$next" "$next"
chmod 644 "$next"
mv "$next" "$file" # readers see the old file or the new one
