#!/bin/sh
# names.sh
# Prints the names of all claims that have an export.
set -eu
file=${EXPORTS:-exports}
[ -e "$file" ] || exit 0
sed -n 's/^.* # //p' "$file"
