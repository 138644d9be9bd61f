#!/bin/sh
# forget.sh NAMESPACE NAME
# Takes the record of a Service out of the zone file $ZONE.
set -eu
# shellcheck source=/dev/null
. "$(dirname "$0")/zone.sh"
replace "; observe $1/$2" ""
