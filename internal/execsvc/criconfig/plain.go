package criconfig

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/ptr"
)

// PlainEnv is the container's environment as far as its pod alone tells: what comes from elsewhere is an error. A variable sees those
// before it.
func PlainEnv(c *v1.Container) ([]EnvVar, error) {
	if len(c.EnvFrom) > 0 {
		return nil, fmt.Errorf("envFrom isn't supported yet")
	}
	list := make([]EnvVar, 0, len(c.Env))
	values := make(map[string]string, len(c.Env))
	for _, e := range c.Env {
		if e.ValueFrom != nil {
			return nil, fmt.Errorf("environment variable %s: valueFrom.%s isn't supported yet", e.Name, valueSource(e.ValueFrom))
		}
		values[e.Name] = Expand(e.Value, values)
		list = append(list, EnvVar{Name: e.Name, Value: values[e.Name]})
	}
	return list, nil
}

// valueSource is the name of the field that is set.
func valueSource(from *v1.EnvVarSource) string {
	switch {
	case from.FieldRef != nil:
		return "fieldRef"
	case from.ResourceFieldRef != nil:
		return "resourceFieldRef"
	case from.ConfigMapKeyRef != nil:
		return "configMapKeyRef"
	case from.SecretKeyRef != nil:
		return "secretKeyRef"
	default:
		return "fileKeyRef"
	}
}

// PlainDNS is what the pod's resolv.conf is made of as far as the pod alone tells. Nil: a copy of the node's. The runtime doesn't merge
// the two, so a dnsConfig that names no servers counts only with the policy None: elsewhere it would leave the pod without any.
func PlainDNS(spec *v1.PodSpec) *runtimeapi.DNSConfig {
	given := ptr.Deref(spec.DNSConfig, v1.PodDNSConfig{})
	if spec.DNSPolicy != v1.DNSNone && len(given.Nameservers) == 0 {
		return nil
	}
	config := &runtimeapi.DNSConfig{Servers: given.Nameservers, Searches: given.Searches}
	for _, o := range given.Options {
		option := o.Name
		if value := ptr.Deref(o.Value, ""); value != "" {
			option += ":" + value
		}
		config.Options = append(config.Options, option)
	}
	return config
}
