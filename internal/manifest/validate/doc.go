// Package validate checks decoded pods, ConfigMaps and Secrets against the rules of the API server that a manifest on
// this node can break (pkg/apis/core/validation), and against what a pod without an API server can use.
//
// Only internal/manifest calls it: AsWritten before the pod is adopted, Pod and Static after its defaults are set.
// ObjectMeta, ConfigMap and Secret check the objects beside the pods. Every function is pure: it returns a
// field.ErrorList, and changes nothing. The package runs no goroutines, and imports no other package of this module.
//
// The error of a field may have the value in it, because internal/manifest has a wording without it. The detail of an
// error must not quote the manifest: inspectors see it.
package validate
