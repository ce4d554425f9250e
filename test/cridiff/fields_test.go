package cridiff

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
)

// sysAdmin is the example of a pod that only one agent refuses.
var sysAdmin = example{
	rule: "sysAdminWithoutPrefix", change: capability("SYS_ADMIN", false), kubelet: Fields{},
	neighbours: map[string]func(*example){
		"with prefix":            func(e *example) { e.change = capability("CAP_SYS_ADMIN", false) },
		"another capability":     func(e *example) { e.change = capability("SYS_TIME", false) },
		"escalation":             func(e *example) { e.change = capability("SYS_ADMIN", true) },
		"the kubelet refuses it": func(e *example) { e.kubelet, e.podstream = nil, Fields{} },
	},
}

// sidecarTime is the example of a sidecar that has less time.
var sidecarTime = example{
	rule: "sidecarTime", step: "StopContainer app", change: sidecar, kubelet: Fields{"timeout": "30"}, podstream: Fields{"timeout": "29"},
	neighbours: map[string]func(*example){
		"of a main container":   func(e *example) { e.change = nil },
		"longer than the pod's": func(e *example) { e.podstream["timeout"] = "31" },
		"much less":             func(e *example) { e.podstream["timeout"] = "20" },
		"no time":               func(e *example) { e.podstream = Fields{} },
	},
}

// sidecar makes the container a sidecar.
func sidecar(p *v1.Pod) {
	p.Spec.InitContainers, p.Spec.Containers = p.Spec.Containers, []v1.Container{{Name: "main"}}
	p.Spec.InitContainers[0].RestartPolicy = ptr.To(v1.ContainerRestartPolicyAlways)
}

// message are the fields of the mount of a termination message, and other ones.
func message(path string, more ...string) Fields {
	const at = "/dev/termination-log"
	fields := Fields{
		"config.mounts[1].hostPath": path, "config.mounts[1].containerPath": at,
		"config.annotations.io.kubernetes.container.terminationMessagePath": at,
	}
	for i := 0; i < len(more); i += 2 {
		fields[more[i]] = more[i+1]
	}
	return fields
}

func list(path string, elements ...string) Fields {
	fields := Fields{}
	for i, e := range elements {
		fields[path+"["+string(rune('0'+i))+"]"] = e
	}
	return fields
}

func appArmor(kind, ref, deprecated string) Fields {
	fields := Fields{}
	for name, v := range map[string]string{"apparmor.profileType": kind, "apparmor.localhostRef": ref, "apparmorProfile": deprecated} {
		if v != "" {
			fields["config.linux.securityContext."+name] = v
		}
	}
	return fields
}

func group(p *v1.Pod) {
	p.Spec.SecurityContext = &v1.PodSecurityContext{RunAsGroup: ptr.To[int64](2000)}
}

func ending(p *v1.Pod) {
	p.DeletionGracePeriodSeconds, p.Spec.TerminationGracePeriodSeconds = ptr.To[int64](3), ptr.To[int64](7)
}

func burstable(p *v1.Pod) { p.Status.QOSClass = v1.PodQOSBurstable }

func capability(name v1.Capability, escalation bool) func(*v1.Pod) {
	return func(p *v1.Pod) {
		p.Spec.Containers[0].SecurityContext = &v1.SecurityContext{
			AllowPrivilegeEscalation: &escalation, Capabilities: &v1.Capabilities{Add: []v1.Capability{name}},
		}
	}
}

func forgedAgent(p *v1.Pod) {
	p.Annotations = map[string]string{"podstream.io/agent": "forged"}
}

func named(p *v1.Pod) { p.Name, p.Namespace = "web", "shop" }

func memory(request string) func(*v1.Pod) {
	return func(p *v1.Pod) {
		p.Spec.Containers[0].Resources.Requests = v1.ResourceList{v1.ResourceMemory: resource.MustParse(request)}
	}
}

// userRange are the fields of a pod's user namespace.
func userRange(uids, gids, length string) Fields {
	const at = "config.linux.securityContext.namespaceOptions.usernsOptions."
	return Fields{
		at + "uids[0].hostId": uids, at + "uids[0].length": length, at + "gids[0].hostId": gids, at + "gids[0].length": length,
	}
}

// variables gives the container the variables A and B.
func variables(p *v1.Pod) {
	p.Spec.Containers[0].Env = []v1.EnvVar{{Name: "A", Value: "a"}, {Name: "B", Value: "b"}}
}

func environment(pairs ...string) Fields {
	fields := Fields{}
	for i := 0; i < len(pairs); i += 2 {
		at := fmt.Sprintf("config.envs[%d].", i/2)
		fields[at+"key"], fields[at+"value"] = pairs[i], pairs[i+1]
	}
	return fields
}

// imageAndSubPath gives the pod an image volume, and the container another one's part.
func imageAndSubPath(p *v1.Pod) {
	p.Spec.Volumes = []v1.Volume{{Name: "image", VolumeSource: v1.VolumeSource{Image: &v1.ImageVolumeSource{}}}}
	p.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{{Name: "sub", MountPath: "sub", SubPath: "a/b"}}
}

// subPathMount are the fields of a mount, and one more.
func subPathMount(name, v string) Fields {
	return Fields{
		"config.mounts[0].hostPath": "ROOT/x", "config.mounts[0].containerPath": "/sub", "config.mounts[0]." + name: v,
	}
}
