package redact

import (
	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/access"
)

// Audience is a kind of caller: one that sees whole pods, or an inspector. The zero value is an inspector, so that a
// missing Audience shows too little and never too much.
type Audience struct{ whole bool }

// AudienceOf returns the Audience of a role: consumers and operators see whole pods, and so does a deployer, which sees only
// the pods that it has applied.
func AudienceOf(role access.Role) Audience {
	return Audience{whole: role >= access.Consumer || role == access.Deployer}
}

// Whole reports whether the Audience sees whole pods.
func (a Audience) Whole() bool { return a.whole }

// Pod is a pod as one Audience may see it. Only an Audience makes one.
type Pod struct{ object *v1.Pod }

// Object returns the pod, which the caller must not change. It is nil in the zero Pod.
func (p Pod) Object() *v1.Pod { return p.object }

// Pod returns p as the Audience may see it. A redacted pod keeps names, references and structure and can be encoded
// as any pod; it can't be run. A pod of many short values, which the Placeholder could make too large to be sent, has
// empty texts instead.
func (a Audience) Pod(p *v1.Pod) Pod {
	if a.whole || p == nil {
		return Pod{p}
	}
	out := marked(p, Placeholder)
	if size := out.Size(); size > maxGrown && size > p.Size() {
		out = marked(p, "")
	}
	return Pod{out}
}

// Status is a pod's status as one Audience may see it. Only an Audience makes one.
type Status struct{ object *v1.PodStatus }

// Object returns the status, which the caller must not change. It is nil if there is none.
func (s Status) Object() *v1.PodStatus { return s.object }

// Status returns s as the Audience may see it.
func (a Audience) Status(s *v1.PodStatus) Status {
	if a.whole || s == nil {
		return Status{s}
	}
	return Status{&a.Pod(&v1.Pod{Status: *s}).object.Status}
}

// Words returns a text that may quote a container, a runtime or a driver, as the Audience may see it. For an
// inspector, the Placeholder replaces a text that isn't empty.
func (a Audience) Words(text string) string {
	if a.whole || text == "" {
		return text
	}
	return Placeholder
}

// maxReason is the longest reason in CamelCase that is shown to an inspector.
const maxReason = 64

// Reason returns a reason in CamelCase as the Audience may see it. For an inspector, the Placeholder replaces a text
// that isn't one word of letters, as it may quote anything.
func (a Audience) Reason(reason string) string {
	if a.whole || isReason(reason) {
		return reason
	}
	return a.Words(reason)
}

func isReason(s string) bool {
	if len(s) > maxReason || s == "" || s[0] < 'A' || s[0] > 'Z' {
		return false
	}
	for _, c := range []byte(s) {
		if (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') {
			return false
		}
	}
	return true
}
