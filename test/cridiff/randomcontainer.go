package cridiff

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
)

// amounts returns CPU, memory, or both.
func (g *generator) amounts(cpu, memory string) v1.ResourceList {
	list := v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu), v1.ResourceMemory: resource.MustParse(memory)}
	switch g.IntN(4) {
	case 0:
		delete(list, v1.ResourceCPU)
	case 1:
		delete(list, v1.ResourceMemory)
	}
	return list
}

func securityOf(c *v1.Container) *v1.SecurityContext {
	if c.SecurityContext == nil {
		c.SecurityContext = &v1.SecurityContext{}
	}
	return c.SecurityContext
}

func lifecycleOf(c *v1.Container) *v1.Lifecycle {
	if c.Lifecycle == nil {
		c.Lifecycle = &v1.Lifecycle{}
	}
	return c.Lifecycle
}

// lasts reports whether the container may have probes and hooks: an init container that ends may not.
func lasts(s *v1.PodSpec, c *v1.Container) bool {
	return c.RestartPolicy != nil || slices.ContainsFunc(s.Containers, func(main v1.Container) bool { return main.Name == c.Name })
}

func runs(command ...string) *v1.LifecycleHandler {
	return &v1.LifecycleHandler{Exec: &v1.ExecAction{Command: command}}
}

// probe returns a probe that runs soon.
func (g *generator) probe(command ...string) *v1.Probe {
	return &v1.Probe{
		ProbeHandler: v1.ProbeHandler{Exec: &v1.ExecAction{Command: command}}, PeriodSeconds: 1, TimeoutSeconds: pick(g, int32(0), 1, 7),
	}
}

func variable(name string, source *v1.EnvVarSource) v1.EnvVar {
	return v1.EnvVar{Name: name, ValueFrom: source}
}

// containerFeatures each set something of a container. Projected volumes and recursive read-only mounts are left out: without
// an API server the kubelet has none.
var containerFeatures = []func(g *generator, s *v1.PodSpec, c *v1.Container){
	func(g *generator, _ *v1.PodSpec, c *v1.Container) {
		c.ImagePullPolicy = pick(g, v1.PullAlways, v1.PullIfNotPresent, v1.PullNever)
	},
	func(_ *generator, _ *v1.PodSpec, c *v1.Container) {
		if c.Args == nil {
			c.Command, c.Args = []string{"/sample"}, []string{"serve"}
		}
	},
	func(_ *generator, _ *v1.PodSpec, c *v1.Container) { c.WorkingDir = "/work" },
	func(_ *generator, _ *v1.PodSpec, c *v1.Container) {
		c.Env = append(c.Env, v1.EnvVar{Name: "A", Value: "a"}, v1.EnvVar{Name: "B", Value: "$(A) $(NONE) $$(A) $(C)"}, v1.EnvVar{Name: "C"})
	},
	func(_ *generator, _ *v1.PodSpec, c *v1.Container) {
		c.Env = append(c.Env, variable("NAME", field("metadata.name")), variable("SPACE", field("metadata.namespace")),
			variable("POD", field("metadata.uid")), variable("NODE", field("spec.nodeName")), variable("ACCOUNT", field("spec.serviceAccountName")),
			variable("APP", field("metadata.labels['app']")), variable("NOTE", field("metadata.annotations['note']")))
	},
	func(_ *generator, _ *v1.PodSpec, c *v1.Container) {
		c.Env = append(c.Env, variable("HOST", field("status.hostIP")), variable("HOSTS", field("status.hostIPs")))
	},
	func(_ *generator, _ *v1.PodSpec, c *v1.Container) {
		for _, name := range []string{"limits.cpu", "limits.memory", "requests.cpu", "requests.memory"} {
			c.Env = append(c.Env, variable("R"+name[:1]+name[len(name)-3:], &v1.EnvVarSource{
				ResourceFieldRef: &v1.ResourceFieldSelector{Resource: name, Divisor: resource.MustParse("1")},
			}))
		}
	},
	func(g *generator, _ *v1.PodSpec, c *v1.Container) { c.Resources.Requests = g.amounts("5m", "8Mi") },
	func(g *generator, _ *v1.PodSpec, c *v1.Container) { c.Resources.Limits = g.amounts("50m", "64Mi") },
	func(g *generator, _ *v1.PodSpec, c *v1.Container) {
		c.Resources.Requests = g.amounts("100m", "32Mi")
		c.Resources.Limits = c.Resources.Requests.DeepCopy()
	},
	func(g *generator, _ *v1.PodSpec, c *v1.Container) {
		c.Ports = []v1.ContainerPort{{ContainerPort: 81}, {Name: "p", ContainerPort: 82, Protocol: pick(g, v1.ProtocolTCP, v1.ProtocolUDP, v1.ProtocolSCTP)}}
	},
	func(g *generator, _ *v1.PodSpec, c *v1.Container) {
		port := int32(20000 + g.IntN(20000))
		c.Ports = []v1.ContainerPort{{ContainerPort: port, HostPort: port, HostIP: pick(g, "", "127.0.0.1")}}
	},
	func(g *generator, _ *v1.PodSpec, c *v1.Container) {
		c.TTY, c.Stdin, c.StdinOnce = *g.flag(), *g.flag(), *g.flag()
	},
	func(_ *generator, s *v1.PodSpec, c *v1.Container) {
		s.OS = &v1.PodOS{Name: v1.Linux}
		lifecycleOf(c).StopSignal = ptr.To(v1.SIGINT)
	},
	func(_ *generator, _ *v1.PodSpec, c *v1.Container) { c.TerminationMessagePath = "/tmp/end" },
	func(_ *generator, _ *v1.PodSpec, c *v1.Container) {
		c.TerminationMessagePolicy = v1.TerminationMessageFallbackToLogsOnError
	},
	func(g *generator, _ *v1.PodSpec, c *v1.Container) { securityOf(c).RunAsUser = g.id() },
	func(g *generator, _ *v1.PodSpec, c *v1.Container) { securityOf(c).RunAsGroup = g.id() },
	func(g *generator, _ *v1.PodSpec, c *v1.Container) { securityOf(c).RunAsNonRoot = g.flag() },
	func(g *generator, _ *v1.PodSpec, c *v1.Container) { securityOf(c).Privileged = g.flag() },
	func(g *generator, _ *v1.PodSpec, c *v1.Container) { securityOf(c).ReadOnlyRootFilesystem = g.flag() },
	func(g *generator, _ *v1.PodSpec, c *v1.Container) { securityOf(c).AllowPrivilegeEscalation = g.flag() },
	func(_ *generator, _ *v1.PodSpec, c *v1.Container) {
		securityOf(c).Capabilities = &v1.Capabilities{Add: []v1.Capability{"NET_ADMIN", "SYS_TIME"}, Drop: []v1.Capability{"ALL"}}
	},
	func(g *generator, _ *v1.PodSpec, c *v1.Container) { securityOf(c).SeccompProfile = g.seccomp() },
	func(g *generator, _ *v1.PodSpec, c *v1.Container) { securityOf(c).AppArmorProfile = g.appArmor() },
	func(g *generator, _ *v1.PodSpec, c *v1.Container) { securityOf(c).SELinuxOptions = g.selinux() },
	func(g *generator, s *v1.PodSpec, c *v1.Container) {
		source := &v1.EmptyDirVolumeSource{Medium: pick(g, v1.StorageMediumDefault, v1.StorageMediumMemory)}
		volume(s, c, "empty", v1.VolumeSource{EmptyDir: source}, v1.VolumeMount{MountPath: "/empty", ReadOnly: *g.flag()})
	},
	func(g *generator, s *v1.PodSpec, c *v1.Container) {
		volume(s, c, "sub", v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}},
			v1.VolumeMount{MountPath: pick(g, "/sub", "sub"), SubPath: "a/b"})
	},
	func(g *generator, s *v1.PodSpec, c *v1.Container) {
		volume(s, c, "host", v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: "/usr"}},
			v1.VolumeMount{MountPath: "/host", ReadOnly: *g.flag(), MountPropagation: ptr.To(pick(g, v1.MountPropagationNone, v1.MountPropagationHostToContainer))})
	},
	func(_ *generator, s *v1.PodSpec, c *v1.Container) {
		items := []v1.DownwardAPIVolumeFile{{Path: "labels", FieldRef: field("metadata.labels").FieldRef}}
		volume(s, c, "down", v1.VolumeSource{DownwardAPI: &v1.DownwardAPIVolumeSource{Items: items}}, v1.VolumeMount{MountPath: "/down"})
	},
	func(g *generator, s *v1.PodSpec, c *v1.Container) {
		source := &v1.ImageVolumeSource{Reference: pick(g, "example.org/model:"+g.own, "example.org/model-"+g.own), PullPolicy: pick(g, "", v1.PullIfNotPresent)}
		volume(s, c, "image", v1.VolumeSource{Image: source}, v1.VolumeMount{MountPath: "/image", SubPath: pick(g, "", "a")})
	},
	func(_ *generator, s *v1.PodSpec, c *v1.Container) {
		if lasts(s, c) {
			lifecycleOf(c).PostStart = runs("/sample", "exit", "0")
		}
	},
	func(g *generator, s *v1.PodSpec, c *v1.Container) {
		if lasts(s, c) {
			lifecycleOf(c).PreStop = runs("/sample", "exists", pick(g, "/tmp", "/none"))
		}
	},
	func(g *generator, s *v1.PodSpec, c *v1.Container) {
		if lasts(s, c) {
			c.ReadinessProbe = g.probe("/sample", "exit", pick(g, "2", "3"))
			c.LivenessProbe = pick(g, nil, g.probe("/sample", "seq", "exit", "0"))
			c.StartupProbe = pick(g, nil, g.probe("/sample", "seq", "seq", "exit", "0"))
		}
	},
	func(_ *generator, _ *v1.PodSpec, c *v1.Container) {
		securityOf(c).WindowsOptions = &v1.WindowsSecurityContextOptions{RunAsUserName: ptr.To("app")}
	},
}
