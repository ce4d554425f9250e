// Package podenv computes the environment of a container from services, ConfigMaps, Secrets, fields and files, in the
// kubelet's order of precedence (makeEnvironmentVariables in pkg/kubelet/kubelet_pods.go).
//
// Package podsetup calls it before a container is created. It runs no goroutines and changes nothing; it reads only
// through its Input. No error contains the value of a variable, which may be a Secret's.
package podenv
