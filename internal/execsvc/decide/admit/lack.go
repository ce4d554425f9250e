package admit

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/execsvc/pod/criconfig"
	"github.com/podstream/podstream/internal/execsvc/pod/events"
)

// UnsupportedFeature is the reason in the report to podconfigd for a pod that has Lacks.
const UnsupportedFeature = "UnsupportedFeature"

// Lack is a feature that a pod needs and that this version, or the node's container runtime, doesn't provide. The pod
// is admitted and doesn't fail; the part that needs the feature waits.
type Lack struct {
	// Scope is the part that waits, and Container its name if it is a container.
	Scope     Scope
	Container string
	// Reason is the event's reason, as the kubelet has it if that field can't be provided.
	Reason string
	// Message begins with the field's path.
	Message string
}

// Scope is the part of a pod that waits because of a Lack.
type Scope int

const (
	// WholePod means that no container of the pod is started or restarted.
	WholePod Scope = iota
	// NewSandbox means that the pod waits if it has no ready sandbox.
	NewSandbox
	// OneContainer means that the container isn't started; the others are.
	OneContainer
)

// Waiting returns the lacks for which the whole pod waits. sandbox reports whether it has a ready sandbox.
func (v *Verdict) Waiting(sandbox bool) []Lack {
	var out []Lack
	for _, l := range v.Lacks {
		if l.Scope == WholePod || l.Scope == NewSandbox && !sandbox {
			out = append(out, l)
		}
	}
	return out
}

// Containers maps the containers that can't be started to the message of the first lack of each. Nil: all can be
// started.
func (v *Verdict) Containers() map[string]string {
	var out map[string]string
	for _, l := range v.Lacks {
		if _, more := out[l.Container]; l.Scope != OneContainer || more {
			continue
		}
		if out == nil {
			out = map[string]string{}
		}
		out[l.Container] = l.Message
	}
	return out
}

// lack records a field that the whole pod, or its sandbox, can't have.
func (c *checker) lack(scope Scope, reason, path, why string) {
	c.verdict.Lacks = append(c.verdict.Lacks, Lack{Scope: scope, Reason: reason, Message: path + ": " + why})
}

// containerLack records a field that a container can't have. The kubelet's reason is that of a container whose
// configuration can't be generated.
func (c *checker) containerLack(container, path, why string) {
	c.verdict.Lacks = append(c.verdict.Lacks, Lack{
		Scope: OneContainer, Container: container, Reason: events.FailedToStart, Message: path + ": " + why,
	})
}

// The messages for fields and volumes that this version doesn't support.
const (
	notYet       = "isn't supported yet"
	volumeNotYet = "this version doesn't support it"
)

// volumeLack records a volume that can't be provided. As in the kubelet, a volume that no container uses is never set
// up, so nothing waits for it. For a volume that only ephemeral containers use, only these wait: they are added to a
// running pod.
func (c *checker) volumeLack(path string, v *v1.Volume, why string) {
	spec := &c.pod.Spec
	uses := func(ct v1.Container) bool { return criconfig.UsesVolume(&ct, v.Name) }
	if slices.ContainsFunc(spec.InitContainers, uses) || slices.ContainsFunc(spec.Containers, uses) {
		c.lack(WholePod, events.FailedMountVolume, path, fmt.Sprintf("volume %q can't be mounted: %s", v.Name, why))
		return
	}
	used := false
	for i := range spec.EphemeralContainers {
		if ct := v1.Container(spec.EphemeralContainers[i].EphemeralContainerCommon); uses(ct) {
			c.containerLack(ct.Name, path, fmt.Sprintf("volume %q can't be mounted: %s", v.Name, why))
			used = true
		}
	}
	c.ignore(path, !used)
}
