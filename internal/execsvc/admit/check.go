package admit

import (
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/execsvc/criconfig"
)

// The reasons of refusals that don't depend on the pods that are there; they become the reason of the pod's status.
const (
	// UnsupportedFeature is for what this version, or the node's container runtime, can't do.
	UnsupportedFeature = "UnsupportedFeature"
	// InvalidPod is for a pod that no source should have let through.
	InvalidPod = "InvalidPod"
	// These are the kubelet's: SysctlForbidden is for a sysctl that would reach beyond the pod, or that the node's owner doesn't allow.
	SysctlForbidden                      = "SysctlForbidden"
	AppArmor                             = "AppArmor"
	PodOSNotSupported                    = "PodOSNotSupported"
	PodOSSelectorNodeLabelDoesNotMatch   = "PodOSSelectorNodeLabelDoesNotMatch"
	SupplementalGroupsPolicyNotSupported = "SupplementalGroupsPolicyNotSupported"
)

// Verdict is what Check found.
type Verdict struct {
	// Refused is why the pod can't run here; it is empty if it can.
	Refused []Refusal
	// Preempt are the pods that have to end first, so that a critical pod finds room. Given the same others, they are the same ones again.
	Preempt []types.UID
	// Ignored are the paths of fields that are set but not acted upon.
	Ignored []string
}

// MayPass tells whether the end of other pods may make room for a pod that is refused: if not, only a change of the pod, of the
// node or of its runtime can.
func (v Verdict) MayPass() bool {
	return len(v.Refused) > 0 && !slices.ContainsFunc(v.Refused, func(r Refusal) bool { return !r.Passing })
}

// Refusal is one reason why a pod can't run here.
type Refusal struct {
	// Reason is one word, for the pod's status.
	Reason string
	// Message is the kubelet's, or begins with the field's path.
	Message string
	// Passing is set if the end of other pods may do away with it.
	Passing bool
}

// Check tells whether the pod can run on the node. It takes for granted that the pod is valid as Kubernetes has it.
//
// others are the pods that were admitted and haven't ended. If the pod itself is among them, nothing is asked any more that depends on
// where it is and what else is there: a pod that runs isn't refused because a label or another pod has changed. Of two pods that are
// checked at once, one must be among the other's others: the caller admits one after the other.
func Check(pod *v1.Pod, node Node, others []*v1.Pod) Verdict {
	c := &checker{pod: pod, node: node}
	c.features()
	admitted := slices.ContainsFunc(others, func(o *v1.Pod) bool { return o.UID == pod.UID })
	if len(c.verdict.Refused) == 0 && !admitted {
		c.fit(others)
	}
	return c.verdict
}

// checker gathers a verdict.
type checker struct {
	pod  *v1.Pod
	node Node
	// handler is the runtime's for this pod, and handlerName what it calls it.
	handler     Handler
	handlerName string
	verdict     Verdict
}

// features checks what doesn't depend on other pods, in the order of the pod's fields.
func (c *checker) features() {
	if err := criconfig.CheckUID(c.pod.UID); err != nil {
		c.refuseFor(InvalidPod, "metadata.uid", err.Error())
	}
	c.podSpec()
	c.podSecurity()
	spec := &c.pod.Spec
	for i := range spec.Volumes {
		c.volume(fmt.Sprintf("spec.volumes[%d]", i), &spec.Volumes[i])
	}
	for i := range spec.InitContainers {
		c.container(fmt.Sprintf("spec.initContainers[%d]", i), &spec.InitContainers[i])
	}
	for i := range spec.Containers {
		c.container(fmt.Sprintf("spec.containers[%d]", i), &spec.Containers[i])
	}
	for i := range spec.EphemeralContainers {
		common := &spec.EphemeralContainers[i].EphemeralContainerCommon
		c.container(fmt.Sprintf("spec.ephemeralContainers[%d]", i), (*v1.Container)(common))
	}
}

// refuse refuses the pod in the kubelet's words.
func (c *checker) refuse(reason, message string) {
	c.verdict.Refused = append(c.verdict.Refused, Refusal{Reason: reason, Message: message})
}

// refuseFor refuses the pod for one of its fields.
func (c *checker) refuseFor(reason, path, why string) { c.refuse(reason, path+": "+why) }

// unsupported refuses the pod for a field that isn't supported, if it is set.
func (c *checker) unsupported(path string, set bool) {
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

func sortedKeys[K ~string, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
