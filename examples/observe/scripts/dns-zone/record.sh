#!/bin/sh
# record.sh NAMESPACE NAME ADDRESS
# Keeps an A record for a Service in the zone file $ZONE; a Service without an address has none. Lines
# without our mark are never touched, and the serial grows only if something has changed.
set -eu
# shellcheck source=/dev/null
. "$(dirname "$0")/zone.sh"
mark="; observe $1/$2"
case $3 in
"" | None) replace "$mark" "" ;;
*:*) replace "$mark" "$2.$1 IN AAAA $3 $mark" ;;
*) replace "$mark" "$2.$1 IN A $3 $mark" ;;
esac
