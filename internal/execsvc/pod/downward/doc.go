// Package downward implements the downward API: fields of a pod and its node as text (the kubelet's pkg/fieldpath and
// pkg/api/v1/resource).
//
// It is pure: functions of a pod and of Facts, without calls or state. Package podenv makes environment variables of
// the results, volume/payload files. It rejects unknown paths; callers decide which of the known ones a pod may use.
package downward
