// Package manifest turns bytes into pods, and the ConfigMaps and Secrets beside them: it decodes, defaults, validates, and gives each
// pod its UID and digests.
//
// Every source calls it with what it read and hands the resulting Origins on in a Set. It does no I/O, runs no goroutines,
// keeps nothing between calls, and never fails as a whole: what is wrong with a document becomes a Finding of its Origin.
//
// The way of a document, one file each:
//
//	documents.go  the file is cut at its "---" lines, so that a syntax error stays in its document
//	yaml.go       YAML is checked (doubled keys, what its anchors expand to) and becomes JSON
//	decode.go     JSON becomes a v1.Pod, with a finding for each field that v1.Pod doesn't know; explain.go tells what stopped it
//	uid.go        the UID is taken from the document as written
//	adopt.go      the pod becomes this node's: name suffix, namespace, nodeName, annotations, toleration
//	defaults.go   what the API server would have filled in
//	validate*.go  what the API server would have refused; static.go what a pod without an API server can't use
//	report.go     what is wrong is told, in the two wordings of wording.go: with what it quotes of the manifest, and without;
//	              discreet.go tells of which documents everybody gets the second one; syntax.go has what a parser may say in it
//	size.go       what a pod may have in every format
//	object*.go    the way of a ConfigMap or Secret, by validate_object.go; references.go tells which of them a pod refers to
//	digest.go     what the merge compares; canonical.go is the form of JSON that it is taken of
package manifest
