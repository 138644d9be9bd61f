#!/bin/sh
# forget.sh NAMESPACE NAME
# Takes the line of this name out of the file $RECORD.
set -eu
file=${RECORD:-services.txt}
[ -e "$file" ] || exit 0
next=$(mktemp "$file.XXXXXX")
trap 'rm -f "$next"' EXIT
KEY=$1/$2 awk '$1 != ENVIRON["KEY"]' "$file" > "$next"
chmod 644 "$next"
mv "$next" "$file"
