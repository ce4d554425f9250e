// Package manifest turns bytes into pods, and the ConfigMaps and Secrets beside them: it decodes, defaults,
// validates, and gives each pod its UID and digests.
//
// Every source calls it with what it read and passes the resulting Origins on in a Set. It does no I/O, runs no
// goroutines, keeps nothing between calls, and never fails as a whole: a problem with a document is a Finding of its
// Origin.
//
// The steps of a document, one file each:
//
//	documents.go  splits the file at its "---" lines, so that a syntax error affects one document only
//	yaml.go       checks YAML (doubled keys, the size of expanded anchors) and converts it to JSON
//	decode.go     decodes JSON to a v1.Pod, with a finding for each unknown field; explain.go describes decoding errors
//	uid.go        takes the UID from the document as written
//	adopt.go      makes the pod this node's: name suffix, namespace, nodeName, annotations, toleration
//	defaults.go   sets the API server's defaults
//	validate      a package: refuses what the API server refuses, and what a pod without an API server can't use
//	report.go     reports problems, in the two wordings of wording.go: with and without quotes of the manifest;
//	              discreet.go selects the documents that only have the second one; syntax.go words parsers' errors
//	size.go       bounds a pod in every format
//	object*.go    the steps of a ConfigMap or Secret; references.go lists those of a pod
//	digest.go     makes the digests that the merge compares; canonical.go the form of JSON that they are taken from
package manifest
