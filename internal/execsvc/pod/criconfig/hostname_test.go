package criconfig

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

func TestHostnameOf(t *testing.T) {
	long := strings.Repeat("a", 62)
	for name, c := range map[string]struct {
		pod  string
		spec v1.PodSpec
		// want is "hostname/domain", or a part of the error after "!"; sees is what the processes see, if that is
		// something else than the hostname.
		want, sees string
	}{
		"the pod's name":          {pod: "web", want: "web/"},
		"spec.hostname":           {pod: "web", spec: v1.PodSpec{Hostname: "front"}, want: "front/"},
		"subdomain":               {pod: "web", spec: v1.PodSpec{Subdomain: "sub"}, want: "web/sub.ns.svc.cluster.local"},
		"hostnameOverride":        {pod: "web", spec: v1.PodSpec{Hostname: "front", Subdomain: "sub", HostnameOverride: ptr.To("front.example.org")}, want: "front.example.org/"},
		"an empty override is no": {pod: "web", spec: v1.PodSpec{HostnameOverride: ptr.To("")}, want: "web/"},
		"the node's network":      {pod: "web", spec: v1.PodSpec{HostNetwork: true, Hostname: "front", Subdomain: "sub"}, want: "/"},
		"63 are kept":             {pod: long + "b", want: long + "b/"},
		"64 are cut":              {pod: long + "bc", want: long + "b/"},
		"64 of an override too":   {pod: "web", spec: v1.PodSpec{HostnameOverride: ptr.To(long + "bc")}, want: long + "b/"},
		"no dash is left":         {pod: long + "-c", want: long + "/"},
		"no dot or dash is left":  {pod: long[:60] + "-.-cd", want: long[:60] + "/"},
		"full name": {
			pod: "web", spec: v1.PodSpec{Subdomain: "sub", SetHostnameAsFQDN: ptr.To(true)},
			want: "web/sub.ns.svc.cluster.local", sees: "web.sub.ns.svc.cluster.local"},
		"full name without a subdomain": {pod: "web", spec: v1.PodSpec{SetHostnameAsFQDN: ptr.To(true)}, want: "web/"},
		"full name of 64": {
			pod: long[:39], spec: v1.PodSpec{Subdomain: "sub", SetHostnameAsFQDN: ptr.To(true)},
			want: long[:39] + "/sub.ns.svc.cluster.local", sees: long[:39] + ".sub.ns.svc.cluster.local"},
		"full name of 65":           {pod: long[:40], spec: v1.PodSpec{Subdomain: "sub", SetHostnameAsFQDN: ptr.To(true)}, want: "!64 characters is the max, 65 characters requested"},
		"hostname with a dot":       {pod: "web", spec: v1.PodSpec{Hostname: "a.b"}, want: "!hostname \"a.b\""},
		"subdomain with a dot":      {pod: "web", spec: v1.PodSpec{Subdomain: "a.b"}, want: "!subdomain \"a.b\""},
		"override that is no name":  {pod: "web", spec: v1.PodSpec{HostnameOverride: ptr.To("A_B")}, want: "!hostnameOverride \"A_B\""},
		"a pod's name with its dot": {pod: "web.v1", want: "web.v1/"},
	} {
		pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: c.pod}, Spec: c.spec}
		hostname, domain, err := HostnameOf(pod, "cluster.local")
		if text, wanted := strings.CutPrefix(c.want, "!"); wanted {
			if err == nil || !strings.Contains(err.Error(), text) {
				t.Errorf("%s: error %v, want one with %s", name, err, text)
			}
			continue
		}
		if err != nil || hostname+"/"+domain != c.want {
			t.Errorf("%s: %s/%s, error %v; want %s", name, hostname, domain, err, c.want)
		}
		want := c.sees
		if want == "" {
			want = hostname
		}
		if got := sandboxOf(t, SandboxInput{Pod: pod, Hostname: hostname, Domain: domain}).GetHostname(); got != want {
			t.Errorf("%s: the sandbox is named %q, want %q", name, got, want)
		}
	}
}

func TestHostnameWithoutAClusterDomain(t *testing.T) {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web"}, Spec: v1.PodSpec{Subdomain: "sub"}}
	if _, domain, err := HostnameOf(pod, ""); err != nil || domain != "sub.ns.svc" {
		t.Errorf("domain %q, error %v; want sub.ns.svc", domain, err)
	}
}
