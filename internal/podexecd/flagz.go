package podexecd

import (
	"regexp"
	"slices"

	"github.com/spf13/pflag"
)

// classified is shown instead of a secret value, as the kubelet does.
const classified = "CLASSIFIED"

// plainTypes are the types of flags whose values can't be credentials.
var plainTypes = []string{
	"bool", "count", "duration", "float32", "float64", "int", "int32", "int64", "ip", "mapStringBool", "pattern=N,...", "quantity", "uint32", "uintSlice",
	"Level", "RuntimeDefault",
}

// shownFlags are the flags of other types whose values are shown: names of files, addresses, and settings that are in the Node
// or in each pod anyway. The value of a flag that isn't here may be a credential, such as a header of a request.
var shownFlags = []string{
	"access-file", "address", "allowed-unsafe-sysctls", "authorization-mode", "bootstrap-kubeconfig", "cert-dir", "cgroup-driver", "cgroup-root",
	"client-ca-file", "cloud-provider", "cluster-dns", "cluster-domain", "config", "config-dir", "container-log-max-size",
	"container-runtime-endpoint", "cpu-manager-policy", "enforce-node-allocatable", "eviction-hard", "eviction-minimum-reclaim", "eviction-soft",
	"eviction-soft-grace-period", "healthz-bind-address", "hostname-override", "image-credential-provider-bin-dir",
	"image-credential-provider-config", "image-service-endpoint", "kube-api-content-type", "kube-reserved", "kube-reserved-cgroup", "kubeconfig",
	"kubelet-cgroups", "kubelet-dir", "listen", "log-format", "logging-format", "memory-manager-policy", "metrics-address", "node-ip", "node-labels", "pod-cidr",
	"pod-logs-dir", "podconfig-ca-file", "podconfig-cert-file", "podconfig-endpoint", "podconfig-endpoint-order", "podconfig-key-file", "pods-api-socket", "provider-id",
	"qos-reserved", "register-with-taints", "reserved-cpus", "resolv-conf", "root-dir", "system-cgroups", "system-reserved",
	"system-reserved-cgroup", "tls-cert-file", "tls-cipher-suites", "tls-min-version", "tls-private-key-file", "topology-manager-policy",
	"tracing-endpoint",
}

// userInfo finds a password in an address: //user:password@host, or user:password@host at the start of an element.
var userInfo = regexp.MustCompile(`(^|[\[,= ]|//)[^/@,= ]*:[^@ ]*@|//[^/@ ]+@`)

// flagValues returns the flags with their values. Those that may be credentials are masked, unless they are empty.
func flagValues(fs *pflag.FlagSet) map[string]string {
	out := map[string]string{}
	fs.VisitAll(func(f *pflag.Flag) {
		value := f.Value.String()
		if value != "" && value != "[]" && !isShown(f, value) {
			value = classified
		}
		out[f.Name] = value
	})
	return out
}

// isShown reports whether a value can't be a credential. Upstream masks only flags with an annotation, which no flag of the
// kubelet has: it shows the value of --manifest-url-header.
func isShown(f *pflag.Flag, value string) bool {
	if _, marked := f.Annotations["classified"]; marked {
		return false
	}
	if slices.Contains(plainTypes, f.Value.Type()) {
		return true
	}
	return slices.Contains(shownFlags, f.Name) && !userInfo.MatchString(value)
}
