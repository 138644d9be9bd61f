#!/bin/sh
# known.sh
# Prints the nodes in the file $INVENTORY. A file that cannot be read is a failure, not an empty list.
set -eu
file=${INVENTORY:-inventory.txt}
[ -e "$file" ] || exit 0 # nothing has been added yet
cut -d ' ' -f 1 "$file"
