// Package podsecurity decides whether a pod of a deployer may be written to podconfigd's source "applied".
//
// Check compares a pod with a level of the Pod Security Standards, by the functions of the API server's admission plugin,
// and with what no deployer may request whatever its level is. It is pure. Only mergesvc/service calls it: podctl and
// podexecd don't link it.
package podsecurity

import (
	"fmt"
	"strings"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
	"k8s.io/utils/ptr"
)

// systemClasses is how the names of the priority classes of the system begin.
const systemClasses = "system-"

// evaluator has the checks of the newest version that the library has. The checks are constant, so the error is a mistake of
// the library.
var evaluator = sync.OnceValues(func() (policy.Evaluator, error) { return policy.NewEvaluator(policy.DefaultChecks(), nil) })

// Reason is why a deployer may not write a pod.
type Reason struct {
	// Field is the path of the field that the reason is about, or of the container or volume that has it. Empty: it isn't known.
	Field string
	Text  string
}

// String returns both, for messages.
func (r Reason) String() string {
	if r.Field == "" {
		return r.Text
	}
	return r.Field + ": " + r.Text
}

// Check returns why a deployer may not write the pod; nil: it may. level is restricted, baseline or privileged; any other one
// allows nothing.
func Check(level string, pod *v1.Pod) []Reason {
	reasons := precedence(&pod.Spec)
	parsed, err := api.ParseLevel(level)
	if err != nil {
		return append(reasons, Reason{Text: err.Error()})
	}
	if parsed == api.LevelPrivileged {
		return reasons
	}
	// The checks of other systems allow what matters on this one.
	if os := pod.Spec.OS; os != nil && os.Name != v1.Linux {
		reasons = append(reasons, Reason{"spec.os.name", fmt.Sprintf("%q isn't this node's", os.Name)})
	}
	e, err := evaluator()
	if err != nil {
		return append(reasons, Reason{Text: err.Error()})
	}
	c := checker{e, api.LevelVersion{Level: parsed, Version: api.LatestVersion()}, pod}
	for _, r := range c.results(&pod.Spec) {
		if r.Allowed {
			continue
		}
		text := r.ForbiddenReason
		if r.ForbiddenDetail != "" {
			text += " (" + r.ForbiddenDetail + ")"
		}
		reasons = append(reasons, Reason{c.field(r.ForbiddenReason), fmt.Sprintf("podSecurity %s: %s", level, text)})
	}
	return reasons
}

// precedence returns the fields by which a pod would have precedence over the pods of others. No API server sets the
// priority of a written pod, so each one has what its author writes.
func precedence(spec *v1.PodSpec) (reasons []Reason) {
	if strings.HasPrefix(spec.PriorityClassName, systemClasses) {
		reasons = append(reasons, Reason{"spec.priorityClassName", spec.PriorityClassName + " is for the system's pods"})
	}
	if p := ptr.Deref(spec.Priority, 0); p > 0 {
		reasons = append(reasons, Reason{"spec.priority", fmt.Sprintf("%d is more than 0, which is for the pods of root", p)})
	}
	return reasons
}
