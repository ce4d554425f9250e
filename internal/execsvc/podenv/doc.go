// Package podenv makes the environment of a container: what its services, ConfigMaps, Secrets, fields and files say, in the kubelet's
// order of precedence (makeEnvironmentVariables of its pkg/kubelet/kubelet_pods.go).
//
// Package runtime's caller asks for it before a container is made. It runs no goroutines and changes nothing; what it reads comes
// through its Input. It puts no value of a variable in an error: it may be a Secret's.
package podenv
