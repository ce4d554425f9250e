// Package findings records events about manifests that podconfigd can't use, where users of a cluster look for them: a
// rejected static pod has no object at the API server.
//
// podexecd makes a Reporter if it has a kubeconfig. The Reporter lists podconfigd's sources every 20 s. A finding of an
// error or a conflict is an event FailedValidation of the Node, and of the pods of the manifest's last good version,
// which still run. An event has no text of the manifest, which may be secret, and other users may read events: it names
// the file, and `podctl sources` shows the reason. The number of events is bounded, also if a manifest changes all the
// time, and the sources share it: see record.go.
//
// Run has one goroutine. It changes no pod, and podconfigd and the API server may be away.
package findings
