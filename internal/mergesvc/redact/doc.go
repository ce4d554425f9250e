// Package redact makes the copy of a pod that an inspector may see: one that shows what runs, without the values that secrets are
// put into.
//
// Package service calls it for peers whose role is inspector, before a pod is encoded, so that every format is redacted alike.
// What is shown and what isn't stands in one table, field by field (fields.go). A field that the table doesn't know, of a newer
// Kubernetes say, is left out, and a test fails until somebody has decided on it.
//
// The package is pure: it runs no goroutines, does no I/O and never changes the pod that it is given.
package redact
