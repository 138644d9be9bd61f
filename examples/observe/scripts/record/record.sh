#!/bin/sh
# record.sh NAMESPACE NAME ADDRESS
# Keeps the line "NAMESPACE/NAME ADDRESS" in the file $RECORD, and no other one for this name.
set -eu
file=${RECORD:-services.txt}
touch "$file"
next=$(mktemp "$file.XXXXXX")
trap 'rm -f "$next"' EXIT
KEY=$1/$2 awk '$1 != ENVIRON["KEY"]' "$file" > "$next"
printf '%s/%s %s\n' "$1" "$2" "${3:-none}" >> "$next"
LC_ALL=C sort -o "$next" "$next"
chmod 644 "$next"
mv "$next" "$file" # readers see the old file or the new one
