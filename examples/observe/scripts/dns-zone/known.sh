#!/bin/sh
# known.sh
# Prints the names of all Services that have a record.
set -eu
sed -n 's/^.*; observe //p' "${ZONE:-zone.db}"
