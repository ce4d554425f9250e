package migrate

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstream/podstream/internal/execsvc/pod/criconfig"
	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
)

// Action is what happens to a pod.
type Action string

// The actions.
const (
	// Keep: its containers continue.
	Keep Action = "keep"
	// Restart: its containers, or some of them, are stopped, and created again.
	Restart Action = "restart"
	// Remove: it is stopped, because no source has it.
	Remove Action = "remove"
	// Ignore: podexecd doesn't touch it.
	Ignore Action = "ignore"
)

// Pod is the plan of one pod.
type Pod struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid"`
	Action    Action `json:"action"`
	Reason    string `json:"reason"`
	// Lacks are the features that the pod uses and podexecd doesn't have.
	Lacks []string `json:"lacks,omitempty"`
}

// Input is the node as it is.
type Input struct {
	Sandboxes  []*runtimeapi.PodSandbox
	Containers []*runtimeapi.Container
	// Desired are the node's pods at the API server. Mirror pods are skipped.
	Desired []v1.Pod
	// HasDirectories reports whether the directories of a pod of these labels are those that podexecd will use.
	HasDirectories func(labels map[string]string) bool
}

// generatedUID matches the kubelet's UID of a static pod whose manifest sets none: a hash of the kubelet's internal pod.
var generatedUID = regexp.MustCompile(`^[0-9a-f]{32}$`)

// Plan returns the plan of each pod that has a running sandbox, ordered by namespace, name and UID.
func Plan(in Input) []Pod {
	desired := map[string]*v1.Pod{}
	for i := range in.Desired {
		if p := &in.Desired[i]; !podmeta.IsMirror(p) {
			desired[string(p.UID)] = p
		}
	}
	containers := map[string][]*runtimeapi.Container{}
	for _, c := range in.Containers {
		if c.GetState() == runtimeapi.ContainerState_CONTAINER_RUNNING {
			containers[c.GetPodSandboxId()] = append(containers[c.GetPodSandboxId()], c)
		}
	}
	var out []Pod
	for _, s := range in.Sandboxes {
		if s.GetState() != runtimeapi.PodSandboxState_SANDBOX_READY {
			continue
		}
		labels := s.GetLabels()
		p := Pod{Namespace: labels[podmeta.PodNamespaceLabel], Name: labels[podmeta.PodNameLabel], UID: labels[podmeta.PodUIDLabel]}
		want := desired[p.UID]
		if want != nil && (want.Namespace != p.Namespace || want.Name != p.Name) {
			want = nil
		}
		p.Action, p.Reason = decide(s, containers[s.GetId()], want, in.HasDirectories(labels))
		if want != nil && p.Action != Ignore {
			p.Lacks = Lacks(want)
		}
		out = append(out, p)
	}
	slices.SortFunc(out, func(a, b Pod) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
	})
	return out
}

// decide returns what happens to a running sandbox, and the reason.
func decide(s *runtimeapi.PodSandbox, running []*runtimeapi.Container, want *v1.Pod, directories bool) (Action, string) {
	source := s.GetAnnotations()[podmeta.SourceAnnotation]
	uid := s.GetLabels()[podmeta.PodUIDLabel]
	if _, marked := s.GetAnnotations()[podmeta.AgentAnnotation]; marked {
		return Ignore, "it has the mark of a podexecd: the annotation " + podmeta.AgentAnnotation
	}
	if !directories {
		return Ignore, "it has no directories of a pod in --root-dir and --pod-logs-dir, so the kubelet did not create it"
	}
	switch {
	case source == "file" || source == "http":
		if generatedUID.MatchString(uid) {
			return Restart, "static pod: the kubelet's UID is a hash that podconfigd doesn't compute; set metadata.uid to keep a UID"
		}
		return Keep, "static pod with a UID in its manifest; it is kept if podconfigd reads the same manifest"
	case want == nil:
		return Remove, "the API server's list has no pod with its namespace, name and UID"
	}
	for _, c := range running {
		name := c.GetLabels()[podmeta.ContainerNameLabel]
		spec := container(want, name)
		if spec == nil {
			return Restart, fmt.Sprintf("container %s is not in the pod's spec", name)
		}
		if !criconfig.SameContainer(spec, c.GetAnnotations()[criconfig.ContainerHashAnnotation]) {
			return Restart, fmt.Sprintf("container %s has another name or image than the pod's spec", name)
		}
	}
	return Keep, "UID and container hashes are those of the API server's pod"
}

// container returns the pod's container or init container of that name, or nil.
func container(pod *v1.Pod, name string) *v1.Container {
	for _, list := range [][]v1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range list {
			if list[i].Name == name {
				return &list[i]
			}
		}
	}
	for i := range pod.Spec.EphemeralContainers {
		if e := (*v1.Container)(&pod.Spec.EphemeralContainers[i].EphemeralContainerCommon); e.Name == name {
			return e
		}
	}
	return nil
}

// Lacks returns the features that the pod uses and podexecd doesn't have; docs/kubelet.md lists them.
func Lacks(pod *v1.Pod) []string {
	var out []string
	for i := range pod.Spec.Volumes {
		if v := &pod.Spec.Volumes[i]; !supported(&v.VolumeSource) {
			out = append(out, fmt.Sprintf("volume %s: its type is not supported", v.Name))
		}
	}
	if len(pod.Spec.ResourceClaims) > 0 {
		out = append(out, "resourceClaims")
	}
	for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			c := &list[i]
			if len(c.VolumeDevices) > 0 {
				out = append(out, fmt.Sprintf("container %s: volumeDevices", c.Name))
			}
			var devices []string
			for name := range c.Resources.Limits {
				if strings.Contains(string(name), "/") {
					devices = append(devices, fmt.Sprintf("container %s: resource %s of a device plugin", c.Name, name))
				}
			}
			slices.Sort(devices)
			out = append(out, devices...)
		}
	}
	return out
}

// supported reports whether podexecd sets up volumes of this type.
func supported(v *v1.VolumeSource) bool {
	if v.Projected != nil {
		for i := range v.Projected.Sources {
			if v.Projected.Sources[i].PodCertificate != nil {
				return false
			}
		}
		return true
	}
	return v.EmptyDir != nil || v.HostPath != nil || v.ConfigMap != nil || v.Secret != nil || v.DownwardAPI != nil || v.Image != nil
}
