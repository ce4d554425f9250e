#!/usr/bin/env bash
# Pushes the manifests in a directory as an artifact, signs it, and then sets the tag that the nodes follow: no node finds
# it unsigned. Usage: publish.sh DIRECTORY REGISTRY/REPOSITORY:TAG KEY, with a private key of `cosign generate-key-pair`. Needs
# crane and cosign 3. COSIGN_PASSWORD is the key's password; without it cosign asks.
set -euo pipefail
if [[ $# -ne 3 || $2 != */*:* ]]; then
	echo "usage: $0 DIRECTORY REGISTRY/REPOSITORY:TAG KEY" >&2
	exit 2
fi
manifests=$1 repository=${2%:*} tag=${2##*:} key=$3
archive=$(mktemp --suffix=.tgz)
trap 'rm -f "$archive"' EXIT
tar -C "$manifests" --sort=name --owner=0 --group=0 -czf "$archive" .

candidate=$repository:$tag-candidate
crane append --oci-empty-base -f "$archive" -t "$candidate"
# The time is for `monotonic`: a node refuses what is older than the artifact that it has.
crane mutate --annotation "org.opencontainers.image.created=$(date -u +%Y-%m-%dT%H:%M:%SZ)" "$candidate" -t "$candidate"
digest=$(crane digest "$candidate")
# The annotation names the repository in the signature. Without it a node refuses the artifact.
cosign sign --yes --key "$key" --tlog-upload=false --use-signing-config=false \
	-a "docker-reference=$repository" "$repository@$digest"
crane tag "$repository@$digest" "$tag"
echo "$repository:$tag is $digest"
