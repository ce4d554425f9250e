// Package downward is the downward API: what a pod may learn of itself and of its node, as text (the kubelet's pkg/fieldpath and
// pkg/api/v1/resource).
//
// It is pure: functions of a pod and of Facts, no calls, no state. Package podenv makes environment variables of what it returns,
// volume/payload files. It doesn't decide which paths a pod may ask for, beyond refusing those that it doesn't know.
package downward
