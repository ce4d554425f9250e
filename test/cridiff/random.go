package cridiff

import (
	"fmt"
	"math/rand/v2"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// RandomPods returns n pods, each with some features at random. A seed always gives the same pods.
func RandomPods(seed uint64, n int) []*v1.Pod {
	var pods []*v1.Pod
	for i := range n {
		name := fmt.Sprintf("random-%d-%d", seed, i)
		g := &generator{Rand: rand.New(rand.NewPCG(seed, uint64(i))), own: name} //nolint:gosec // It is to be repeated.
		pods = append(pods, g.pod(name))
	}
	return pods
}

// generator makes one pod.
type generator struct {
	*rand.Rand
	// own is in the names of the images. No other pod has them: the one that asks first for an image pulls it.
	own string
}

func (g *generator) pod(name string) *v1.Pod {
	p := &v1.Pod{}
	p.APIVersion, p.Kind, p.Name, p.Namespace, p.UID = "v1", "Pod", "web", name, types.UID(name)
	for i := range 1 + g.IntN(2) {
		p.Spec.Containers = append(p.Spec.Containers, v1.Container{Name: fmt.Sprintf("main%d", i), Image: g.image()})
	}
	if g.IntN(4) == 0 {
		p.Spec.InitContainers = append(p.Spec.InitContainers, v1.Container{Name: "init", Image: g.image(), Args: []string{"exit", "0"}})
	}
	if g.IntN(4) == 0 {
		p.Spec.InitContainers = append(p.Spec.InitContainers,
			v1.Container{Name: "sidecar", Image: g.image(), RestartPolicy: ptr.To(v1.ContainerRestartPolicyAlways)})
	}
	for _, i := range g.Perm(len(podFeatures))[:1+g.IntN(6)] {
		podFeatures[i](g, p)
	}
	for _, list := range [][]v1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range list {
			for _, f := range g.Perm(len(containerFeatures))[:g.IntN(5)] {
				containerFeatures[f](g, &p.Spec, &list[i])
			}
		}
	}
	return p
}

// pick returns one of the values.
func pick[T any](g *generator, values ...T) T { return values[g.IntN(len(values))] }

func (g *generator) image() string {
	if g.IntN(12) == 0 {
		return pick(g, "App:"+g.own, "none.example/app:"+g.own)
	}
	return pick(g, "app-"+g.own, "app:"+g.own, "docker.io/library/lib:"+g.own, "uid-65532:"+g.own, "user-www:"+g.own, "uid-0:"+g.own)
}

func (g *generator) id() *int64 { return ptr.To(int64(pick(g, 0, 1000, 65534))) }

func (g *generator) flag() *bool { return ptr.To(g.IntN(2) == 0) }

func podContext(p *v1.Pod) *v1.PodSecurityContext {
	if p.Spec.SecurityContext == nil {
		p.Spec.SecurityContext = &v1.PodSecurityContext{}
	}
	return p.Spec.SecurityContext
}

func (g *generator) seccomp() *v1.SeccompProfile {
	return pick(g, &v1.SeccompProfile{Type: v1.SeccompProfileTypeUnconfined}, &v1.SeccompProfile{Type: v1.SeccompProfileTypeRuntimeDefault},
		&v1.SeccompProfile{Type: v1.SeccompProfileTypeLocalhost, LocalhostProfile: ptr.To("profiles/x.json")})
}

func (g *generator) appArmor() *v1.AppArmorProfile {
	return pick(g, &v1.AppArmorProfile{Type: v1.AppArmorProfileTypeUnconfined}, &v1.AppArmorProfile{Type: v1.AppArmorProfileTypeRuntimeDefault},
		&v1.AppArmorProfile{Type: v1.AppArmorProfileTypeLocalhost, LocalhostProfile: ptr.To("lo")})
}

func (g *generator) selinux() *v1.SELinuxOptions {
	return pick(g, &v1.SELinuxOptions{Level: "s0:c1,c2"}, &v1.SELinuxOptions{User: "system_u", Role: "r", Type: "spc_t"}, &v1.SELinuxOptions{})
}

// podFeatures each set something of a pod.
var podFeatures = []func(g *generator, p *v1.Pod){
	func(_ *generator, p *v1.Pod) { p.Spec.HostNetwork = true },
	func(_ *generator, p *v1.Pod) { p.Spec.HostPID = true },
	func(_ *generator, p *v1.Pod) { p.Spec.HostIPC = true },
	func(g *generator, p *v1.Pod) { p.Spec.ShareProcessNamespace = g.flag() },
	func(g *generator, p *v1.Pod) { p.Spec.HostUsers = g.flag() },
	func(_ *generator, p *v1.Pod) { p.Spec.Hostname = "host" },
	func(_ *generator, p *v1.Pod) { p.Spec.Hostname, p.Spec.Subdomain = "host", "sub" },
	func(g *generator, p *v1.Pod) { p.Spec.Subdomain, p.Spec.SetHostnameAsFQDN = "sub", g.flag() },
	func(g *generator, p *v1.Pod) {
		p.Spec.DNSPolicy = pick(g, v1.DNSClusterFirst, v1.DNSDefault, v1.DNSClusterFirstWithHostNet)
	},
	func(g *generator, p *v1.Pod) {
		p.Spec.DNSPolicy = pick(g, v1.DNSClusterFirst, v1.DNSDefault, v1.DNSNone)
		p.Spec.DNSConfig = &v1.PodDNSConfig{
			Nameservers: []string{"192.0.2.54"}, Searches: []string{"more.example", "example.com"},
			Options: []v1.PodDNSConfigOption{{Name: "ndots", Value: ptr.To("2")}, {Name: "edns0"}},
		}
	},
	func(_ *generator, p *v1.Pod) {
		p.Labels = map[string]string{"app": "web", "io.kubernetes.pod.name": "forged"}
	},
	func(_ *generator, p *v1.Pod) {
		p.Annotations = map[string]string{"note": "a \"b\"", "podstream.io/x": "y"}
	},
	func(g *generator, p *v1.Pod) { p.Spec.TerminationGracePeriodSeconds = ptr.To(int64(pick(g, 0, 1, 45))) },
	func(g *generator, p *v1.Pod) { podContext(p).RunAsUser = g.id() },
	func(g *generator, p *v1.Pod) { podContext(p).RunAsGroup = g.id() },
	func(g *generator, p *v1.Pod) { podContext(p).RunAsNonRoot = g.flag() },
	func(g *generator, p *v1.Pod) { podContext(p).FSGroup = g.id() },
	func(_ *generator, p *v1.Pod) { podContext(p).SupplementalGroups = []int64{4000, 3000, 0} },
	func(g *generator, p *v1.Pod) {
		podContext(p).SupplementalGroupsPolicy = ptr.To(pick(g, v1.SupplementalGroupsPolicyMerge, v1.SupplementalGroupsPolicyStrict))
	},
	func(g *generator, p *v1.Pod) {
		podContext(p).Sysctls = []v1.Sysctl{{Name: pick(g, "net.core.somaxconn", "net/core/somaxconn", "kernel.msgmax", "vm.swappiness"), Value: "1"}}
	},
	func(g *generator, p *v1.Pod) { podContext(p).SeccompProfile = g.seccomp() },
	func(g *generator, p *v1.Pod) { podContext(p).AppArmorProfile = g.appArmor() },
	func(g *generator, p *v1.Pod) { podContext(p).SELinuxOptions = g.selinux() },
	func(_ *generator, p *v1.Pod) {
		p.Spec.HostAliases = []v1.HostAlias{{IP: "192.0.2.9", Hostnames: []string{"a", "b"}}}
	},
	func(g *generator, p *v1.Pod) { p.Spec.Priority = ptr.To(pick(g, int32(7), 2000000000)) },
	func(g *generator, p *v1.Pod) {
		p.Spec.PriorityClassName = pick(g, "system-node-critical", "system-cluster-critical")
	},
	func(g *generator, p *v1.Pod) {
		p.Spec.Resources = &v1.ResourceRequirements{Requests: g.amounts("10m", "10Mi"), Limits: g.amounts("300m", "256Mi")}
	},
	func(g *generator, p *v1.Pod) {
		p.Spec.RestartPolicy = pick(g, v1.RestartPolicyNever, v1.RestartPolicyOnFailure)
	},
	func(_ *generator, p *v1.Pod) {
		podContext(p).WindowsOptions = &v1.WindowsSecurityContextOptions{RunAsUserName: ptr.To("app")}
	},
}
