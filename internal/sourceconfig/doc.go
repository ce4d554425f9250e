// Package sourceconfig decides which sources of pods podconfigd has, and how each is read: flags, the kubelet's configuration and
// documents of kind PodSources become one Plan.
//
// Podconfigd calls it at start and at every reload, and compares the Plans. It is pure but for the files that the configuration
// names, certificates and kubeconfigs: one that can't be used is the Problem of its Source, and no mistake of the configuration. It runs
// no goroutines, connects nowhere, and never puts a credential into an error, a Location or a Fingerprint's text; so it shows no name of a
// header that can't be one, nor what a parser quotes.
//
// A PodSources document stands in the file of --config, beside a KubeletConfiguration perhaps, or in a drop-in of --config-dir:
//
//	apiVersion: podstream.io/v1alpha1
//	kind: PodSources
//	files: [{name: extra, path: /etc/podstream/extra}]
//	urls: [{url: https://config.example/pods, headers: {Authorization: [Bearer …]}, caFile: ca.pem}]
//	relays: [{name: site, address: "tcp://site:7443", caFile: ca.pem, certFile: me.pem, keyFile: me.key}]
//	apiServer: {kubeconfig: /etc/kubernetes/kubelet.conf}
//	nodes: [edge-1, edge-2]
//	order: [file, api, http]
//	strictManifests: true
//
// An entry without a name is the source "file", "http" or "relay", one with a name "file:NAME" and so on. Entries of one file must
// differ in name; one of a later file takes the place of the one before. All else is replaced by the later file as a whole. Relative
// paths are meant from the directory of their file.
//
// Flags win, each over what means the same: --pod-manifest-path over staticPodPath and files, --manifest-url over staticPodURL and
// urls, --relay-from over relays, --kubeconfig and --in-cluster over apiServer; an empty value means none at all. What
// --manifest-url-header and --manifest-url-*-file say is for the URLs of --manifest-url and of staticPodURL; the entries of urls have
// their own, but for headers that are given by name. Certificates of flags go to the URLs that are https, and to the relays that are tcp;
// what is given for nothing is warned of.
//
// How changes of the API server's ConfigMaps and Secrets are found is the kubelet's configMapAndSecretChangeDetectionStrategy.
//
// In order of priority are first what `order` names, then the rest by kind: file, http, relay, api; within a kind they are as they
// are written.
package sourceconfig
