package admit

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/execsvc/criconfig"
	"github.com/podstream/podstream/internal/execsvc/volume"
)

// The reasons of refusals; they become the reason of the pod's status.
const (
	// UnsupportedFeature is for what this version can't do yet.
	UnsupportedFeature = "UnsupportedFeature"
	// SysctlForbidden is the kubelet's, for a sysctl that would reach beyond the pod.
	SysctlForbidden = "SysctlForbidden"
	// InvalidPod is for a pod that no source should have let through.
	InvalidPod = "InvalidPod"
)

// Verdict is what Check found, in the order of the pod's fields.
type Verdict struct {
	// Refused is why the pod can't run here; it is empty if it can.
	Refused []Refusal
	// Ignored are the paths of fields that are set but not acted upon.
	Ignored []string
}

// Refusal is one reason why a pod can't run here.
type Refusal struct {
	// Reason is one word, for the pod's status.
	Reason string
	// Message begins with the field's path.
	Message string
}

// Check tells what of the pod this version can't do. It takes for granted that the pod is valid as Kubernetes has it.
func Check(pod *v1.Pod) Verdict {
	c := &checker{}
	if err := criconfig.CheckUID(pod.UID); err != nil {
		c.refuseFor(InvalidPod, "metadata.uid", err.Error())
	}
	c.podSpec(&pod.Spec)
	c.podSecurity(&pod.Spec)
	for i := range pod.Spec.Volumes {
		c.volume(fmt.Sprintf("spec.volumes[%d]", i), &pod.Spec.Volumes[i])
	}
	for i := range pod.Spec.InitContainers {
		c.container(fmt.Sprintf("spec.initContainers[%d]", i), &pod.Spec.InitContainers[i])
	}
	for i := range pod.Spec.Containers {
		c.container(fmt.Sprintf("spec.containers[%d]", i), &pod.Spec.Containers[i])
	}
	for i := range pod.Spec.EphemeralContainers {
		common := &pod.Spec.EphemeralContainers[i].EphemeralContainerCommon
		c.container(fmt.Sprintf("spec.ephemeralContainers[%d]", i), (*v1.Container)(common))
	}
	c.annotations(pod.Annotations)
	return c.verdict
}

// checker gathers a verdict.
type checker struct{ verdict Verdict }

func (c *checker) refuseFor(reason, path, why string) {
	c.verdict.Refused = append(c.verdict.Refused, Refusal{Reason: reason, Message: path + ": " + why})
}

// refuse refuses the pod for a field that isn't supported, if it is set.
func (c *checker) refuse(path string, set bool) {
	if set {
		c.refuseFor(UnsupportedFeature, path, "isn't supported yet")
	}
}

// ignore names a field that isn't acted upon, if it is set.
func (c *checker) ignore(path string, set bool) {
	if set {
		c.verdict.Ignored = append(c.verdict.Ignored, path)
	}
}

func (c *checker) volume(path string, v *v1.Volume) {
	switch {
	case v.HostPath != nil:
	case v.EmptyDir != nil:
		medium := v.EmptyDir.Medium
		c.refuse(path+".emptyDir.medium", medium != v1.StorageMediumDefault && medium != v1.StorageMediumMemory)
		// Nothing is evicted for it; in memory it is the file system's size.
		c.ignore(path+".emptyDir.sizeLimit", v.EmptyDir.SizeLimit != nil && medium == v1.StorageMediumDefault)
	default:
		c.refuseFor(UnsupportedFeature, path, fmt.Sprintf("%s isn't supported yet", volume.SourceType(&v.VolumeSource)))
	}
}

// annotations looks for the AppArmor profiles of Kubernetes before 1.30.
func (c *checker) annotations(annotations map[string]string) {
	for _, key := range sortedKeys(annotations) {
		if !strings.HasPrefix(key, v1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix) {
			continue
		}
		path := "metadata.annotations[" + key + "]"
		local := strings.HasPrefix(annotations[key], v1.DeprecatedAppArmorBetaProfileNamePrefix)
		c.refuse(path, local)
		c.ignore(path, !local)
	}
}
