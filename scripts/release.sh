#!/bin/sh
# Packs what was built into an archive, with its checksums, and signs these with a key of OpenSSH:
#   release.sh BIN FOLDER EPOCH KEY PROGRAM...
# The archive is the same for every build of a commit, the signature is its signer's. KEY is a private key, or
# a public one whose private one an agent has (ssh-agent, a security key).
set -eu
bin=$1 folder=$2 epoch=$3 key=$4
shift 4
if [ ! -r "$key" ]; then
    echo "release: KEY=${key:-} is no key to sign with: make release KEY=FILE, a key of ssh-keygen" >&2
    exit 1
fi
name=contiv-$(cat VERSION)-linux-$(go env GOARCH)
rm -rf "$folder"
made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT
mkdir -p "$made/$name/systemd" "$made/release"
for program in "$@"; do cp "$bin/$program" "$made/$name/"; done
cp "$bin/sbom.json" LICENSE README.md "$made/$name/"
cp scripts/systemd/*.service scripts/systemd/*.sysusers "$made/$name/systemd/"
cp -r deploy/kubernetes "$made/$name/kubernetes"
# One after the other: of a pipe only the last one's failure is seen.
tar --create --directory "$made" --file "$made/$name.tar" --sort=name --mtime="@$epoch" --owner=0 --group=0 --numeric-owner --mode=go-w,a+rX "$name"
gzip --no-name <"$made/$name.tar" >"$made/release/$name.tar.gz"
(cd "$made/release" && sha256sum "$name.tar.gz" >SHA256SUMS)
ssh-keygen -q -Y sign -f "$key" -n contiv-release "$made/release/SHA256SUMS"
mkdir -p "$folder"
cp "$made/release"/* "$folder/"
echo "release: $folder has"
ls "$folder"
