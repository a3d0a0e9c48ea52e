#!/bin/sh
# Installs the Debian packages named as arguments, those that are missing, and
# the Go modules of the project and of its tools. Run as root; harmless to repeat.
set -eu

if ! command -v go >/dev/null; then
    echo "deps: no go in PATH; install Go $(sed -n 's/^go //p' go.mod) or later" >&2
    exit 1
fi

missing=
for package in "$@"; do
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || missing="$missing $package"
done
if [ -n "$missing" ]; then
    echo "deps: installing$missing"
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq
    # shellcheck disable=SC2086 # one word per package
    apt-get install -y -qq --no-install-recommends $missing >/dev/null
fi
for module in . scripts/tools; do
    (cd "$module" && timeout --foreground 1200 go mod download) || {
        echo "deps: the modules of $module/go.mod cannot be had (GOPROXY=$(go env GOPROXY))" >&2
        exit 1
    }
done
