package manifest

import (
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestReceivedChecksPathElements: a pod whose UID or names can't be elements of a path is refused, whatever it was
// received from.
func TestReceivedChecksPathElements(t *testing.T) {
	pod := func(namespace, name, uid string) *v1.Pod {
		return &v1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(uid)},
			Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "main", Image: "web"}}},
		}
	}
	for _, bad := range []string{
		".", "..", "../../../etc/cron.d", "a/b", "/", "a\\b", "a b", "a\nb", "a\x00b", "\xff", strings.Repeat("u", 254),
	} {
		for field, p := range map[string]*v1.Pod{
			"metadata.uid": pod("ns", "web", bad), "metadata.namespace": pod(bad, "web", "u"), "metadata.name": pod("ns", bad, "u"),
		} {
			o := Received("origin", p)
			if !o.Held || len(o.Pods) != 0 || !slices.ContainsFunc(o.Findings, func(f Finding) bool {
				return f.Severity == Error && f.Field == field && (len(bad) < 3 || !strings.Contains(f.Redacted().Message, bad))
			}) {
				t.Errorf("%s %q: held %v, %d pods, findings %+v", field, bad, o.Held, len(o.Pods), o.Findings)
			}
		}
	}
	for _, good := range []string{"0b6a3c1e-54c5-4f0a-9d1e-2f6c7d8e9f00", "7d1c0f5e9a", "a..b", "u:1_2.3", strings.Repeat("u", 253)} {
		if o := Received("origin", pod("ns", "web", good)); o.Held || len(o.Pods) != 1 || len(o.Findings) != 0 {
			t.Errorf("uid %q: held %v, findings %+v", good, o.Held, o.Findings)
		}
	}
}
