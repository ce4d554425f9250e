package apiobjects

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/podstream/podstream/internal/execsvc/pod/criconfig"
)

func newService(namespace, name, ip string, ports ...v1.ServicePort) *v1.Service {
	return &v1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: v1.ServiceSpec{ClusterIP: ip, Ports: ports},
	}
}

func shown(env []criconfig.EnvVar) string {
	list := make([]string, 0, len(env))
	for _, v := range env {
		list = append(list, v.Name+"="+v.Value)
	}
	return strings.Join(list, "\n")
}

// The names, values and order are those of the kubelet's pkg/kubelet/envvars.
func TestVariables(t *testing.T) {
	for name, tc := range map[string]struct {
		service *v1.Service
		want    string
	}{
		"one port without a name": {
			newService("shop", "redis-primary", "10.0.0.11", v1.ServicePort{Port: 6379}),
			`REDIS_PRIMARY_SERVICE_HOST=10.0.0.11
REDIS_PRIMARY_SERVICE_PORT=6379
REDIS_PRIMARY_PORT=tcp://10.0.0.11:6379
REDIS_PRIMARY_PORT_6379_TCP=tcp://10.0.0.11:6379
REDIS_PRIMARY_PORT_6379_TCP_PROTO=tcp
REDIS_PRIMARY_PORT_6379_TCP_PORT=6379
REDIS_PRIMARY_PORT_6379_TCP_ADDR=10.0.0.11`,
		},
		"ports with names, IPv6": {
			newService("shop", "dns", "fd00::a",
				v1.ServicePort{Name: "dns-u", Port: 53, Protocol: v1.ProtocolUDP}, v1.ServicePort{Name: "m", Port: 9153, Protocol: v1.ProtocolSCTP}),
			`DNS_SERVICE_HOST=fd00::a
DNS_SERVICE_PORT=53
DNS_SERVICE_PORT_DNS_U=53
DNS_SERVICE_PORT_M=9153
DNS_PORT=udp://[fd00::a]:53
DNS_PORT_53_UDP=udp://[fd00::a]:53
DNS_PORT_53_UDP_PROTO=udp
DNS_PORT_53_UDP_PORT=53
DNS_PORT_53_UDP_ADDR=fd00::a
DNS_PORT_9153_SCTP=sctp://[fd00::a]:9153
DNS_PORT_9153_SCTP_PROTO=sctp
DNS_PORT_9153_SCTP_PORT=9153
DNS_PORT_9153_SCTP_ADDR=fd00::a`,
		},
		"no ports": {newService("shop", "odd", "10.0.0.12"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			s, ok := cutService(tc.service)
			if !ok {
				t.Fatal("it isn't kept")
			}
			if diff := cmp.Diff(tc.want, shown(variables([]service{s}))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// hosts are the names of the services that a pod sees, with their addresses.
func hosts(env []criconfig.EnvVar) string {
	var list []string
	for _, v := range env {
		if name, ok := strings.CutSuffix(v.Name, "_SERVICE_HOST"); ok {
			list = append(list, name+"="+v.Value)
		}
	}
	return strings.Join(list, " ")
}

// A pod sees the API server's service, and those of its namespace if it wants links; not those without an address of their own.
func TestServices(t *testing.T) {
	p := v1.ServicePort{Port: 80}
	in(t, func(h *harness) {
		h.run()
		pod := podOf("a", "api")
		see := func(want string) {
			t.Helper()
			env, err := h.Services(pod)
			if got := hosts(env); err != nil || got != want {
				t.Errorf("it sees %q, %v; want %q", got, err, want)
			}
		}
		see("DB=10.0.0.2 KUBERNETES=10.0.0.1 WEB=10.0.0.3")
		pod.Spec.EnableServiceLinks = ptr.To(true)
		see("DB=10.0.0.2 KUBERNETES=10.0.0.1 WEB=10.0.0.3")
		pod.Spec.EnableServiceLinks = ptr.To(false)
		see("KUBERNETES=10.0.0.1")
		pod.Spec.EnableServiceLinks = nil

		services := h.api.CoreV1().Services("shop")
		must[*v1.Service](t)(services.Create(t.Context(), newService("shop", "kubernetes", "10.0.0.6", p), metav1.CreateOptions{}))
		must[*v1.Service](t)(services.Update(t.Context(), newService("shop", "db", "None", p), metav1.UpdateOptions{}))
		if err := services.Delete(t.Context(), "web", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		h.wantWoken()
		see("KUBERNETES=10.0.0.6")
		pod.Namespace = "default"
		see("KUBERNETES=10.0.0.1 OTHER=10.0.0.4")
	},
		newService("default", "kubernetes", "10.0.0.1", p), newService("shop", "web", "10.0.0.3", p), newService("shop", "db", "10.0.0.2", p),
		newService("default", "other", "10.0.0.4", p), newService("shop", "headless", "None", p), newService("shop", "external", "", p))
}

const relayPath = "podstream.io/relay-path"

// A pod of the API server waits until services were read once, and is woken then; a static pod doesn't wait.
func TestServicesUnread(t *testing.T) {
	in(t, func(h *harness) {
		relayed := podOf("relayed", "relay")
		relayed.Annotations[relayPath] = "site(12),edge(34)/api"
		for _, pod := range []*v1.Pod{podOf("waits", "api"), relayed, podOf("gone", "api")} {
			_, err := h.Services(pod)
			if want := "services have not yet been read at least once, cannot construct envvars"; err == nil || err.Error() != want {
				t.Errorf("%s: %v; want %s", pod.Name, err, want)
			}
		}
		// Its directory is called so.
		static := podOf("relayed-static", "relay")
		static.Annotations[relayPath] = "site(12),edge(34)/file:/etc/pods/api"
		for _, pod := range []*v1.Pod{podOf("static", "file"), static} {
			if env, err := h.Services(pod); len(env) > 0 || err != nil {
				t.Errorf("%s: %v, %v", pod.Name, env, err)
			}
		}
		h.Drop("gone")
		h.run()
		h.wantWoken("relayed", "relayed-static", "static", "waits")
		if env := must[[]criconfig.EnvVar](t)(h.Services(podOf("static", "file"))); hosts(env) != "KUBERNETES=10.0.0.1" {
			t.Errorf("once they were read a static pod sees %q", hosts(env))
		}
	}, newService("default", "kubernetes", "10.0.0.1", v1.ServicePort{Port: 443}))
}
