package dns

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/ptr"
)

// shown formats a configuration as its resolv.conf.
func shown(c *runtimeapi.DNSConfig) string {
	return fmt.Sprintf("servers %v searches %v options %v", c.GetServers(), c.GetSearches(), c.GetOptions())
}

func resolvConf(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "resolv.conf")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func podOf(spec v1.PodSpec) *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "shop", UID: "u-1"}, Spec: spec}
}

const missing = `pod: "web_shop(u-1)". kubelet does not have ClusterDNS IP configured and cannot create Pod using "ClusterFirst" policy. ` +
	`Falling back to "Default" policy.`

func TestConfigByPolicy(t *testing.T) {
	const (
		ofNode    = "servers [192.0.2.53] searches [corp.example] options [ndots:1 rotate]"
		ofCluster = "servers [10.0.0.10 fd00::a] searches [shop.svc.c.local svc.c.local c.local corp.example] options [ndots:5]"
		localOnly = "servers [127.0.0.1] searches [.] options []"
	)
	file := resolvConf(t, "nameserver 192.0.2.53\nsearch corp.example\noptions ndots:1 rotate\n")
	cluster := Settings{ClusterDNS: []string{"10.0.0.10", "fd00::a"}, ClusterDomain: "c.local", ResolvConf: file}
	standalone := Settings{ResolvConf: file}
	for _, c := range []struct {
		name        string
		policy      v1.DNSPolicy
		hostNetwork bool
		settings    Settings
		want        string
		warned      bool
	}{
		{name: "cluster", policy: v1.DNSClusterFirst, settings: cluster, want: ofCluster},
		{name: "no policy", settings: cluster, want: ofCluster},
		{name: "cluster in the node's network", policy: v1.DNSClusterFirst, hostNetwork: true, settings: cluster, want: ofNode},
		{name: "insisting", policy: v1.DNSClusterFirstWithHostNet, hostNetwork: true, settings: cluster, want: ofCluster},
		{name: "insisting for nothing", policy: v1.DNSClusterFirstWithHostNet, settings: cluster, want: ofCluster},
		{name: "default", policy: v1.DNSDefault, settings: cluster, want: ofNode},
		{name: "none", policy: v1.DNSNone, settings: cluster, want: "servers [] searches [] options []"},
		{name: "standalone", policy: v1.DNSClusterFirst, settings: standalone, want: ofNode, warned: true},
		{name: "standalone in the node's network", policy: v1.DNSClusterFirst, hostNetwork: true, settings: standalone, want: ofNode},
		{name: "standalone, default", policy: v1.DNSDefault, settings: standalone, want: ofNode},
		{name: "standalone, none", policy: v1.DNSNone, settings: standalone, want: "servers [] searches [] options []"},
		{
			name: "no domain", policy: v1.DNSClusterFirst, settings: Settings{ClusterDNS: []string{"10.0.0.10"}, ResolvConf: file},
			want: "servers [10.0.0.10] searches [corp.example] options [ndots:5]",
		},
		{
			name: "cluster without a file", policy: v1.DNSClusterFirst,
			settings: Settings{ClusterDNS: []string{"10.0.0.10"}, ClusterDomain: "c.local"},
			want:     "servers [10.0.0.10] searches [shop.svc.c.local svc.c.local c.local] options [ndots:5]",
		},
		{name: "no file", policy: v1.DNSDefault, want: localOnly},
		{name: "nothing at all", policy: v1.DNSClusterFirst, want: localOnly, warned: true},
		{
			name: "no file, both families", policy: v1.DNSDefault, settings: Settings{NodeIPs: []string{"fd00::1", "192.0.2.1", "192.0.2.2"}},
			want: "servers [::1 127.0.0.1] searches [.] options []",
		},
	} {
		got, warnings, err := Config(podOf(v1.PodSpec{DNSPolicy: c.policy, HostNetwork: c.hostNetwork}), c.settings)
		if err != nil || shown(got) != c.want {
			t.Errorf("%s: %s, %v; want %s", c.name, shown(got), err, c.want)
		}
		var want []Warning
		if c.warned {
			want = []Warning{{MissingClusterDNS, missing}}
		}
		if diff := cmp.Diff(want, warnings); diff != "" {
			t.Errorf("%s: warnings: %s", c.name, diff)
		}
	}
}

func TestConfigMergesDNSConfig(t *testing.T) {
	settings := Settings{
		ClusterDNS: []string{"10.0.0.10"}, ClusterDomain: "c.local",
		ResolvConf: resolvConf(t, "nameserver 192.0.2.53\nsearch corp.example\noptions ndots:1 rotate timeout:2\n"),
	}
	own := &v1.PodDNSConfig{
		Nameservers: []string{"192.0.2.53", "192.0.2.54"},
		Searches:    []string{"corp.example", "more.example", "c.local"},
		Options: []v1.PodDNSConfigOption{
			{Name: "ndots", Value: ptr.To("2")}, {Name: "edns0"}, {Name: "timeout", Value: ptr.To("")}, {Name: "ndots", Value: ptr.To("3")},
		},
	}
	for policy, want := range map[v1.DNSPolicy]string{
		v1.DNSClusterFirst: "servers [10.0.0.10 192.0.2.53 192.0.2.54] " +
			"searches [shop.svc.c.local svc.c.local c.local corp.example more.example] options [ndots:3 edns0 timeout]",
		v1.DNSDefault: "servers [192.0.2.53 192.0.2.54] searches [corp.example more.example c.local] options [ndots:3 rotate timeout edns0]",
		v1.DNSNone:    "servers [192.0.2.53 192.0.2.54] searches [corp.example more.example c.local] options [ndots:3 edns0 timeout]",
	} {
		pod := podOf(v1.PodSpec{DNSPolicy: policy, DNSConfig: own})
		before := pod.DeepCopy()
		got, warnings, err := Config(pod, settings)
		if err != nil || shown(got) != want || len(warnings) > 0 {
			t.Errorf("%s: %s, %v, %v; want %s", policy, shown(got), warnings, err, want)
		}
		if diff := cmp.Diff(before, pod); diff != "" {
			t.Errorf("%s changed the pod: %s", policy, diff)
		}
	}
	if !slices.Equal(settings.ClusterDNS, []string{"10.0.0.10"}) {
		t.Errorf("the settings were changed: %v", settings.ClusterDNS)
	}
}

// The kubelet's messages, before the remaining values.
const (
	serversCut  = "Nameserver limits were exceeded, some nameservers have been omitted, the applied nameserver line is: "
	searchesCut = "Search Line limits were exceeded, some search paths have been omitted, the applied search line is: "
)

func TestConfigLimits(t *testing.T) {
	names := func(n, length int) (list []string) {
		for i := range n {
			list = append(list, fmt.Sprintf("%0*d", length, i))
		}
		return list
	}
	long := strings.Repeat("x", 254)
	atLimit := append(names(31, 63), names(1, 64)...) // 2048 characters
	for _, c := range []struct {
		name     string
		own      v1.PodDNSConfig
		servers  int
		searches []string
		warnedOf []string
	}{
		{
			name: "all at their limits", own: v1.PodDNSConfig{Nameservers: names(3, 1), Searches: atLimit},
			servers: 3, searches: atLimit,
		},
		{
			name: "a server more", own: v1.PodDNSConfig{Nameservers: names(4, 1)},
			servers: 3, warnedOf: []string{serversCut + "0 1 2"},
		},
		{
			name: "a domain more", own: v1.PodDNSConfig{Searches: names(33, 2)},
			searches: names(32, 2), warnedOf: []string{searchesCut + strings.Join(names(32, 2), " ")},
		},
		{
			name: "a character more", own: v1.PodDNSConfig{Searches: append(names(31, 63), names(1, 65)...)},
			searches: names(31, 63), warnedOf: []string{searchesCut + strings.Join(names(31, 63), " ")},
		},
		{
			name: "a long domain", own: v1.PodDNSConfig{Searches: []string{"a", long, "b", long[1:]}},
			searches: []string{"a", "b", long[1:]}, warnedOf: []string{searchesCut + "a b " + long[1:]},
		},
		{name: "long domains only", own: v1.PodDNSConfig{Searches: []string{long}}, warnedOf: []string{searchesCut}},
		{
			name: "both", own: v1.PodDNSConfig{Nameservers: names(4, 1), Searches: names(16, 253)}, servers: 3, searches: names(8, 253),
			warnedOf: []string{serversCut + "0 1 2", searchesCut + strings.Join(names(8, 253), " ")},
		},
	} {
		got, warnings, err := Config(podOf(v1.PodSpec{DNSPolicy: v1.DNSNone, DNSConfig: &c.own}), Settings{})
		if err != nil || len(got.GetServers()) != c.servers || !slices.Equal(got.GetSearches(), c.searches) {
			t.Errorf("%s: %s, %v", c.name, shown(got), err)
		}
		var reported []string
		for _, w := range warnings {
			if w.Reason != DNSConfigForming {
				t.Errorf("%s: the reason is %s", c.name, w.Reason)
			}
			reported = append(reported, w.Message)
		}
		if diff := cmp.Diff(c.warnedOf, reported); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
	}
}

func TestConfigFailsWithoutTheNodesFile(t *testing.T) {
	settings := Settings{ClusterDNS: []string{"10.0.0.10"}, ResolvConf: filepath.Join(t.TempDir(), "none")}
	for policy, fails := range map[v1.DNSPolicy]bool{v1.DNSClusterFirst: true, v1.DNSDefault: true, v1.DNSNone: false} {
		if _, _, err := Config(podOf(v1.PodSpec{DNSPolicy: policy}), settings); (err != nil) != fails {
			t.Errorf("%s: %v; want an error: %v", policy, err, fails)
		}
	}
}
