#!/bin/sh
# known.sh
# Prints all names in the file $RECORD. A file that cannot be read is a failure, not an empty list.
set -eu
file=${RECORD:-services.txt}
[ -e "$file" ] || exit 0 # nothing has been recorded yet
cut -d ' ' -f 1 "$file"
