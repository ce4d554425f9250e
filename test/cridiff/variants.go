package cridiff

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// variant is a golden pod with a change.
type variant struct {
	of, name string
	change   func(*v1.Pod)
}

// variants are golden pods that no agent accepts as static pods, changed so that both do, and pods for rules to which no
// golden pod always applies.
var variants = []variant{
	{"mounts", "mounts-of-a-privileged-container", func(p *v1.Pod) {
		p.Spec.Containers[0].SecurityContext = &v1.SecurityContext{Privileged: ptr.To(true)}
		for i := range p.Spec.Volumes {
			if v := &p.Spec.Volumes[i]; v.HostPath != nil {
				v.HostPath.Path = "/usr"
			}
		}
		// Without an API server the kubelet has no runtime classes, and takes it that no runtime supports recursive ones.
		for i := range p.Spec.Containers[0].VolumeMounts {
			p.Spec.Containers[0].VolumeMounts[i].RecursiveReadOnly = nil
		}
	}},
	{"env-of-fields", "env-of-fields-without-an-account", func(p *v1.Pod) { p.Spec.ServiceAccountName = "" }},
	{
		"init-sidecar-main-and-ephemeral-containers", "init-sidecar-and-main-containers",
		func(p *v1.Pod) {
			p.Spec.EphemeralContainers, p.Spec.InitContainers[0].Args = nil, []string{"exit", "0"}
		},
	},
	{"hugepages-of-a-size-that-the-node-has-not", "hugepages-of-a-size-that-the-node-has-not-with-cpu", withCPU},
	{"hugepages-of-both-sizes", "hugepages-of-both-sizes-with-cpu", withCPU},
	{"pod-level-hugepages", "pod-level-hugepages-with-cpu", withCPU},
	{"mount-of-an-image", "mounts-beside-an-image", func(p *v1.Pod) {
		names := &v1.DownwardAPIVolumeSource{Items: []v1.DownwardAPIVolumeFile{{Path: "name", FieldRef: field("metadata.name").FieldRef}}}
		volume(&p.Spec, &p.Spec.Containers[0], "down", v1.VolumeSource{DownwardAPI: names}, v1.VolumeMount{MountPath: "/down"})
		volume(&p.Spec, &p.Spec.Containers[0], "sub", v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}},
			v1.VolumeMount{MountPath: "/sub", SubPath: "a/b"})
	}},
	{"dns-of-its-own", "dns-options", func(p *v1.Pod) {
		for i := range 9 {
			p.Spec.DNSConfig.Options = append(p.Spec.DNSConfig.Options, v1.PodDNSConfigOption{Name: fmt.Sprintf("option%d", i)})
		}
	}},
}

func withCPU(p *v1.Pod) {
	for i := range p.Spec.Containers {
		r := &p.Spec.Containers[i].Resources
		if r.Requests == nil {
			r.Requests = v1.ResourceList{}
		}
		r.Requests[v1.ResourceCPU] = resource.MustParse("100m")
	}
}

// AddVariants adds the variants of the pods, by node.
func AddVariants(byNode map[string][]*v1.Pod) error {
	for _, v := range variants {
		node, of := find(byNode, v.of)
		if of == nil {
			return fmt.Errorf("there is no golden pod %q", v.of)
		}
		pod := of.DeepCopy()
		pod.UID, pod.Namespace = types.UID(v.name), v.name
		v.change(pod)
		byNode[node] = append(byNode[node], pod)
	}
	return nil
}

func find(byNode map[string][]*v1.Pod, uid string) (string, *v1.Pod) {
	for node, pods := range byNode {
		for _, pod := range pods {
			if string(pod.UID) == uid {
				return node, pod
			}
		}
	}
	return "", nil
}

func field(path string) *v1.EnvVarSource {
	return &v1.EnvVarSource{FieldRef: &v1.ObjectFieldSelector{APIVersion: "v1", FieldPath: path}}
}

// volume adds a volume and its mount.
func volume(s *v1.PodSpec, c *v1.Container, name string, source v1.VolumeSource, mount v1.VolumeMount) {
	name += "-" + c.Name
	s.Volumes = append(s.Volumes, v1.Volume{Name: name, VolumeSource: source})
	mount.Name = name
	c.VolumeMounts = append(c.VolumeMounts, mount)
}
