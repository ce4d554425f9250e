package criconfig

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/ptr"
)

func TestPlainEnvSeesEarlierOnly(t *testing.T) {
	list, err := PlainEnv(&v1.Container{Env: []v1.EnvVar{
		{Name: "EARLY", Value: "$(LATE)"}, {Name: "LATE", Value: "1"}, {Name: "BOTH", Value: "$(EARLY)-$(LATE)"},
		{Name: "LATE", Value: "$(LATE)2"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, kv := range list {
		got = append(got, kv.Name+"="+kv.Value)
	}
	if diff := cmp.Diff([]string{"EARLY=$(LATE)", "LATE=1", "BOTH=$(LATE)-1", "LATE=12"}, got); diff != "" {
		t.Errorf("environment (-want +got):\n%s", diff)
	}
}

func TestPlainEnvRefusesWhatItCantResolve(t *testing.T) {
	for name, source := range map[string]*v1.EnvVarSource{
		"fieldRef":         {FieldRef: &v1.ObjectFieldSelector{}},
		"resourceFieldRef": {ResourceFieldRef: &v1.ResourceFieldSelector{}},
		"configMapKeyRef":  {ConfigMapKeyRef: &v1.ConfigMapKeySelector{}},
		"secretKeyRef":     {SecretKeyRef: &v1.SecretKeySelector{}},
		"fileKeyRef":       {FileKeyRef: &v1.FileKeySelector{}},
	} {
		_, err := PlainEnv(&v1.Container{Env: []v1.EnvVar{{Name: "TOKEN", ValueFrom: source}}})
		if err == nil || !strings.Contains(err.Error(), "TOKEN") || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: error %v doesn't name the variable and its source", name, err)
		}
	}
	if _, err := PlainEnv(&v1.Container{EnvFrom: []v1.EnvFromSource{{}}}); err == nil {
		t.Error("envFrom is lost in silence")
	}
}

func TestPlainDNS(t *testing.T) {
	given := &v1.PodDNSConfig{
		Nameservers: []string{"10.0.0.1"}, Searches: []string{"example.org"},
		Options: []v1.PodDNSConfigOption{{Name: "ndots", Value: ptr.To("2")}, {Name: "edns0"}},
	}
	full := &runtimeapi.DNSConfig{Servers: []string{"10.0.0.1"}, Searches: []string{"example.org"}, Options: []string{"ndots:2", "edns0"}}
	for name, c := range map[string]struct {
		policy v1.DNSPolicy
		config *v1.PodDNSConfig
		want   *runtimeapi.DNSConfig
	}{
		"default":              {v1.DNSDefault, nil, nil},
		"cluster first":        {v1.DNSClusterFirst, nil, nil},
		"none":                 {v1.DNSNone, given, full},
		"none without config":  {v1.DNSNone, nil, &runtimeapi.DNSConfig{}},
		"default with servers": {v1.DNSDefault, given, full},
		"options alone leave the node's servers": {
			v1.DNSDefault, &v1.PodDNSConfig{Options: []v1.PodDNSConfigOption{{Name: "ndots"}}}, nil},
	} {
		got := PlainDNS(&v1.PodSpec{DNSPolicy: c.policy, DNSConfig: c.config})
		if diff := cmp.Diff(c.want, got, protocmp.Transform()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
