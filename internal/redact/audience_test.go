package redact_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstream/podstream/internal/access"
	"github.com/podstream/podstream/internal/redact"
)

// TestAudienceOf: consumers and operators see whole pods; every other role, and the zero Audience, sees as an
// inspector.
func TestAudienceOf(t *testing.T) {
	for role, whole := range map[access.Role]bool{
		access.None: false, access.Inspector: false, access.Consumer: true, access.Operator: true,
	} {
		if got := redact.AudienceOf(role).Whole(); got != whole {
			t.Errorf("%s sees whole pods: %v; want %v", role, got, whole)
		}
	}
	if (redact.Audience{}).Whole() {
		t.Error("the zero Audience sees whole pods; want an inspector's")
	}
	p := filledPod()
	if got := redact.AudienceOf(access.Consumer).Pod(p).Object(); got != p {
		t.Error("a consumer gets another pod; want the pod itself")
	}
	if got := redact.AudienceOf(access.Consumer).Status(&p.Status).Object(); got != &p.Status {
		t.Error("a consumer gets another status; want the status itself")
	}
}

// TestStatus: a status by itself is redacted as that of a pod, and the original isn't changed.
func TestStatus(t *testing.T) {
	p := filledPod()
	got := redact.Audience{}.Status(&p.Status).Object()
	if diff := cmp.Diff(&inspected(p).Status, got); diff != "" {
		t.Errorf("the status (-as the pod's +got):\n%s", diff)
	}
	if m := got.ContainerStatuses[0].State.Terminated.Message; m != "(redacted)" {
		t.Errorf("a container's last words are %q; want them redacted", m)
	}
	if diff := cmp.Diff(filledPod(), p); diff != "" {
		t.Errorf("redacting changed the status itself (-before +after):\n%s", diff)
	}
	if s := (redact.Audience{}).Status(nil).Object(); s != nil {
		t.Errorf("the status nil is %v; want nil", s)
	}
}

// TestPodWithoutContainers: a pod without spec.containers is redacted as any other pod.
func TestPodWithoutContainers(t *testing.T) {
	got := inspected(&v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"k": `{"p":"hunter2"}`}},
		Spec:       v1.PodSpec{InitContainers: []v1.Container{{Env: []v1.EnvVar{{Name: "P", Value: "hunter2"}}}}},
	})
	if strings.Contains(got.String(), "hunter2") {
		t.Errorf("a pod without spec.containers shows its secrets: %v", got)
	}
}

// TestNothingCountsChanges: no field that rises with each write is shown, as it would reveal that a hidden value
// changed.
func TestNothingCountsChanges(t *testing.T) {
	p := filledPod()
	p.Generation, p.Status.ObservedGeneration, p.Status.Conditions[0].ObservedGeneration = 7, 7, 7
	got := inspected(p)
	if got.Status.ObservedGeneration != 0 || got.Status.Conditions[0].ObservedGeneration != 0 {
		t.Errorf("an inspector sees the observed generations %d and %d; want neither",
			got.Status.ObservedGeneration, got.Status.Conditions[0].ObservedGeneration)
	}
	if got.ResourceVersion != "" || got.Generation != 0 || got.ManagedFields != nil {
		t.Errorf("an inspector sees the resource version %q, generation %d and %d managed fields; want none of them",
			got.ResourceVersion, got.Generation, len(got.ManagedFields))
	}
}

// TestWords: an inspector sees that there is a text, and of a reason only a word in CamelCase.
func TestWords(t *testing.T) {
	inspector, consumer := redact.Audience{}, redact.AudienceOf(access.Consumer)
	for text, want := range map[string]string{"": "", "exit status 1: hunter2": "(redacted)"} {
		if got := inspector.Words(text); got != want {
			t.Errorf("an inspector sees %q of the words %q; want %q", got, text, want)
		}
		if got := consumer.Words(text); got != text {
			t.Errorf("a consumer sees %q of the words %q", got, text)
		}
	}
	for reason, shown := range map[string]bool{
		"": true, "OutOfcpu": true, "A": true, "Zz": true, strings.Repeat("A", 64): true, strings.Repeat("A", 65): false,
		"lower": false, "Two words": false, "Secret=x": false, "Hunter2": false, "@": false, "A[": false, "A`": false, "A{": false, "Ä": false,
	} {
		want := reason
		if !shown {
			want = "(redacted)"
		}
		if got := inspector.Reason(reason); got != want {
			t.Errorf("an inspector sees %q of the reason %q; want %q", got, reason, want)
		}
		if got := consumer.Reason(reason); got != reason {
			t.Errorf("a consumer sees %q of the reason %q", got, reason)
		}
	}
}
