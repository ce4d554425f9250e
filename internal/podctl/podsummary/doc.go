// Package podsummary joins a pod's two halves, podconfigd's desired pod and podexecd's observed pod, and summarizes
// them: the row of `podctl pods`, the document of -o json, and the reasons for which the pod waits.
//
// It is pure: it starts no goroutines and makes no calls. Package podctl calls it.
package podsummary
