#!/bin/sh
# gone.sh NODE
# Forgets a node that is gone.
set -eu
rm -f "${STATE:-not-ready}/$1"
