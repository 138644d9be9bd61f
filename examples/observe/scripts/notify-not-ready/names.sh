#!/bin/sh
# names.sh
# Prints the nodes that have been reported as not ready.
set -eu
mkdir -p "${STATE:=not-ready}"
ls "$STATE"
