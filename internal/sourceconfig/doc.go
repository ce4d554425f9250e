// Package sourceconfig makes the Plan: which sources of pods podconfigd has, and how each is read. Its inputs are
// flags, the kubelet's configuration and documents of kind PodSources.
//
// Podconfigd calls it at start and at every reload, and compares the Plans. It is pure except that it reads the files
// that the configuration names, certificates and kubeconfigs: one that can't be used is the Problem of its Source,
// and not an error of the configuration. It runs no goroutines, connects nowhere, and puts no credential into an
// error, a Location or a Fingerprint's text; so it shows no invalid name of a header, nor a parser's quotes.
//
// A PodSources document is in the file of --config, perhaps beside a KubeletConfiguration, or in a drop-in of
// --config-dir:
//
//	apiVersion: podstream.io/v1alpha1
//	kind: PodSources
//	files: [{name: extra, path: /etc/podstream/extra}]
//	urls: [{url: https://config.example/pods, headers: {Authorization: [Bearer …]}, caFile: ca.pem}]
//	oci: [{reference: "registry.example/pods:prod", publicKeyFile: cosign.pub, monotonic: true}]
//	relays: [{name: site, address: "tcp://site:7443", caFile: ca.pem, certFile: me.pem, keyFile: me.key}]
//	apiServer: {kubeconfig: /etc/kubernetes/kubelet.conf}
//	applied: {enabled: true}
//	nodes: [edge-1, edge-2]
//	order: [file, api, http]
//	strictManifests: true
//
// An entry without a name is the source "file", "http", "oci" or "relay", one with a name "file:NAME" and so on. Names in
// one file must be unique; an entry of a later file replaces the earlier one of the same name. All other fields are
// replaced by the later file as a whole. Relative paths are relative to the directory of their file.
//
// Flags take precedence, each over the field of the same meaning: --pod-manifest-path over staticPodPath and files,
// --manifest-url over staticPodURL and urls, --oci-artifact over oci, --relay-from over relays, --kubeconfig and --in-cluster
// over apiServer, --applied over applied;
// an empty value means none at all. --manifest-url-header and --manifest-url-*-file apply to the URLs of
// --manifest-url and of staticPodURL; the entries of urls have their own, except headers that are given by name.
// Certificates of flags apply to https URLs, and to tcp relays; certificates without a use cause a warning.
//
// The kubelet's configMapAndSecretChangeDetectionStrategy selects how changes of the API server's ConfigMaps and
// Secrets are found.
//
// The order of priority begins with the sources in order. The rest follow by kind: file, http, oci, relay, api; within a
// kind they are in the order of the configuration. The source applied, of which there is at most one, is always the last.
package sourceconfig
