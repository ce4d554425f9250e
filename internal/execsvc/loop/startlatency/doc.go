// Package startlatency measures how long pods of the API server take to start, as the kubelet does for the
// service level objective of pod starts: from a pod's creation until the API server's copy of the pod shows that its
// containers run. Pods that had started before podexecd saw them, and pods that once were unschedulable, aren't measured.
//
// The Agent reports pods and their removal, the image puller its pulls. It runs no goroutines. Its memory is bounded by the
// number of desired pods.
package startlatency
