#!/usr/bin/env bash
# Makes the signatures in this directory, with cosign 3.1.3, crane 0.22.1, openssl and jq. Usage: make.sh, in this directory.
# Each key signs one artifact in both formats, by "cosign sign", and its manifest by "cosign sign-blob".
set -euo pipefail
export COSIGN_PASSWORD=
port=5055
repo=127.0.0.1:$port/pods
work=$(mktemp -d)
crane registry serve --address "127.0.0.1:$port" >"$work/log" 2>&1 &
trap 'kill %1; rm -rf "$work"' EXIT
sleep 1

echo '{apiVersion: v1, kind: Pod, metadata: {name: web}, spec: {containers: [{name: main, image: app}]}}' >"$work/web.yaml"
tar -C "$work" --sort=name --mtime=@0 --owner=0 --group=0 -cf "$work/web.tar" web.yaml
crane append --oci-empty-base -f "$work/web.tar" -t "$repo:v1"
digest=$(crane digest "$repo:v1")
crane manifest "$repo:v1" >manifest.json

openssl ecparam -name prime256v1 -genkey -noout | openssl pkcs8 -topk8 -nocrypt >"$work/p256.pem"
openssl ecparam -name secp384r1 -genkey -noout | openssl pkcs8 -topk8 -nocrypt >"$work/p384.pem"
openssl genpkey -algorithm ed25519 >"$work/ed25519.pem"
openssl genpkey -algorithm rsa -pkeyopt rsa_keygen_bits:2048 >"$work/rsa.pem"
offline=(--yes --tlog-upload=false --use-signing-config=false)
referrers() { { crane manifest "$repo:${digest/:/-}" || echo '{"manifests": [{"digest": "none"}]}'; } 2>/dev/null | jq -r '.manifests[].digest'; }
for key in p256 p384 ed25519 rsa; do
	(cd "$work" && cosign import-key-pair --yes --key $key.pem --output-key-prefix $key)
	cp "$work/$key.pub" $key.pub
	sign() { cosign sign --key "$work/$key.key" "${offline[@]}" "$@" "$repo@$digest"; }

	sign --new-bundle-format=false
	tag=$repo:${digest/:/-}.sig
	signatures=$(crane manifest "$tag" | jq '.layers | length')
	layer=$(crane manifest "$tag" | jq ".layers[$signatures-1]")
	payload=$(crane blob "$repo@$(jq -r .digest <<<"$layer")" | base64 -w0)
	jq -n --arg p "$payload" --arg s "$(jq -r '.annotations["dev.cosignproject.cosign/signature"]' <<<"$layer")" \
		'{payload: $p, signature: $s}' >$key-simple.json

	for form in named unnamed; do
		annotation=()
		[[ $form == unnamed ]] || annotation=(-a "docker-reference=$repo")
		referrers >"$work/before"
		sign "${annotation[@]}"
		bundle=$(referrers | grep -vxFf "$work/before")
		crane blob "$repo@$(crane manifest "$repo@$bundle" | jq -r '.layers[0].digest')" >$key-$form.json
	done
	cosign sign-blob --key "$work/$key.key" "${offline[@]}" --bundle $key-message.json manifest.json
done
