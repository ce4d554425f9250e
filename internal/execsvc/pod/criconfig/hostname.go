package criconfig

import (
	"cmp"
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"
)

const (
	// maxHostname is the longest hostname of a pod; a longer one is cut, as the kubelet does.
	maxHostname = 63
	// maxNodename is the kernel's longest host name: an FQDN isn't cut.
	maxNodename = 64
)

// HostnameOf returns the pod's hostname without its domain, and the domain, which is empty if the pod has no subdomain.
// clusterDomain may be empty. Both are empty for a pod with hostNetwork, which has the node's name. The error is of the
// pod's settings.
func HostnameOf(pod *v1.Pod, clusterDomain string) (hostname, domain string, err error) {
	spec := &pod.Spec
	if spec.HostNetwork {
		return "", "", nil
	}
	if override := ptr.Deref(spec.HostnameOverride, ""); override != "" {
		if wrong := validation.IsDNS1123Subdomain(override); len(wrong) > 0 {
			return "", "", fmt.Errorf("hostnameOverride %q: %s", override, strings.Join(wrong, "; "))
		}
		return cutHostname(override), "", nil
	}
	if err := cmp.Or(checkLabel("hostname", spec.Hostname), checkLabel("subdomain", spec.Subdomain)); err != nil {
		return "", "", err
	}
	hostname = pod.Name
	if spec.Hostname != "" {
		hostname = spec.Hostname
	}
	hostname = cutHostname(hostname)
	if spec.Subdomain != "" {
		domain = strings.TrimSuffix(spec.Subdomain+"."+pod.Namespace+".svc."+clusterDomain, ".")
	}
	if name := nodename(spec, hostname, domain); len(name) > maxNodename {
		return "", "", fmt.Errorf("setHostnameAsFQDN: %s is too long (%d characters is the max, %d characters requested)",
			name, maxNodename, len(name))
	}
	return hostname, domain, nil
}

// checkLabel rejects the value of a field that isn't a DNS label; it may be empty.
func checkLabel(field, value string) error {
	if value == "" {
		return nil
	}
	if wrong := validation.IsDNS1123Label(value); len(wrong) > 0 {
		return fmt.Errorf("%s %q: %s", field, value, strings.Join(wrong, "; "))
	}
	return nil
}

func cutHostname(name string) string {
	if len(name) <= maxHostname {
		return name
	}
	return strings.TrimRight(name[:maxHostname], "-.")
}

// nodename returns the host name that the pod's processes see.
func nodename(spec *v1.PodSpec, hostname, domain string) string {
	if domain != "" && ptr.Deref(spec.SetHostnameAsFQDN, false) {
		return hostname + "." + domain
	}
	return hostname
}
