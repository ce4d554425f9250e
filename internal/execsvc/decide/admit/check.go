package admit

import (
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/execsvc/pod/events"
	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
)

// Verdict is the result of Check.
type Verdict struct {
	// Rejected is why the pod is rejected; empty if it is admitted. Rejects reports true for each of the reasons.
	Rejected []Rejection
	// Lacks are the features that the pod needs and the node doesn't provide. The pod is admitted, and the parts that
	// need them wait.
	Lacks []Lack
	// Preempt are the pods that have to end first, so that a critical pod fits. The same others give the same result.
	Preempt []types.UID
	// Short is the first resource for which pods are preempted. Empty: none are.
	Short v1.ResourceName
	// Ignored are the paths of fields that are set but have no effect.
	Ignored []string
}

// Transient reports whether a rejected pod may be admitted once other pods have ended. Otherwise the pod, the node or
// its runtime has to change.
func (v Verdict) Transient() bool {
	return len(v.Rejected) > 0 && !slices.ContainsFunc(v.Rejected, func(r Rejection) bool { return !r.Transient })
}

// ByRuntime reports whether the pod is rejected because of a feature that the container runtime may lack.
func (v *Verdict) ByRuntime() bool {
	return slices.ContainsFunc(v.Rejected, func(r Rejection) bool {
		return r.Reason == SupplementalGroupsPolicyNotSupported || r.Reason == PodFeatureUnsupported
	})
}

// Rejection is one reason why a pod is rejected.
type Rejection struct {
	// Reason is one word, for the pod's status.
	Reason string
	// Message is the kubelet's message.
	Message string
	// Transient is set if the reason may be gone once other pods have ended.
	Transient bool
}

// Check reports whether the pod can run on the node. The pod has to be valid for Kubernetes.
//
// others are the pods that were admitted and haven't ended. If the pod itself is among them it is not rejected: as in
// the kubelet, admission is decided once, and neither a changed label nor another pod revokes it. The caller must
// admit pods one after the other, so that an admitted pod is in the others of the next one.
func Check(pod *v1.Pod, node Node, others []*v1.Pod) Verdict {
	admitted := slices.ContainsFunc(others, func(o *v1.Pod) bool { return o.UID == pod.UID })
	c := &checker{pod: pod, node: node, admitted: admitted}
	c.features()
	if len(c.verdict.Rejected) == 0 && !admitted {
		c.fit(others)
	}
	return c.verdict
}

// checker collects a Verdict.
type checker struct {
	pod  *v1.Pod
	node Node
	// admitted is set if the pod was admitted before.
	admitted bool
	// handler and handlerName are the runtime's handler for this pod and its name.
	handler     Handler
	handlerName string
	verdict     Verdict
}

// features checks all that doesn't depend on other pods, in the order of the pod's fields.
func (c *checker) features() {
	if err := podmeta.CheckUID(c.pod.UID); err != nil {
		c.lack(WholePod, events.FailedMakePodDirs, "metadata.uid", err.Error())
	} else if err := podmeta.CheckPath(c.pod); err != nil {
		c.lack(WholePod, events.FailedMakePodDirs, "metadata.name", err.Error())
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
	c.declaredFeatures()
}

// reject rejects the pod with the kubelet's reason and message.
func (c *checker) reject(reason, message string) {
	c.verdict.Rejected = append(c.verdict.Rejected, Rejection{Reason: reason, Message: message})
}

// ignore records a field that has no effect, if it is set.
func (c *checker) ignore(path string, set bool) {
	if set {
		c.verdict.Ignored = append(c.verdict.Ignored, path)
	}
}

func sortedKeys[K ~string, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
