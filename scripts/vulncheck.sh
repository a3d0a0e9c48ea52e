#!/bin/sh
# Looks for known vulnerabilities in what the programs call. The database is that of
# vuln.go.dev, or the one that VULNDB names, such as file:///srv/vulndb. When it cannot be
# had, nothing was checked: that is said, and is no success. In a folder without entries nothing is known, so it is no database.
set -eu
bin=$1
(cd scripts/tools && CGO_ENABLED=0 go build -trimpath -o "$bin/" golang.org/x/vuln/cmd/govulncheck)
db=${VULNDB:-https://vuln.go.dev}
status=0
case $db in
file://*) [ -n "$(find "${db#file://}" -name '*.json' ! -path '*/index/*' -print -quit)" ] || { echo "$db has no entries" >&2; status=1; } ;;
esac
[ $status -ne 0 ] || "$bin/govulncheck" -db "$db" ./cmd/... || status=$?
case $status in
0) echo "vulncheck: none known" ;;
3) echo "vulncheck: there are some" >&2 ;;
*) echo "vulncheck: NOT RUN: the database or the source could not be read, see above; VULNDB=URL names another database" >&2 ;;
esac
exit $status
