package podexecd

import (
	"errors"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstream/podstream/internal/execsvc/pod/objects"
	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
	"github.com/podstream/podstream/internal/execsvc/pod/podview"
	"github.com/podstream/podstream/internal/execsvc/setup/storage/directory"
)

// referrer returns a pod of a source of the kind, in the namespace, with a volume of the claim.
func referrer(kind, namespace, claim string) podview.Pod {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web", Annotations: map[string]string{podmeta.SourceAnnotation: kind}}}
	pod.Spec.Volumes = []v1.Volume{{Name: "none"}, {Name: "v", VolumeSource: v1.VolumeSource{
		PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
	}}}
	return podview.Pod{Namespace: namespace, Name: "web", Source: kind, Object: pod}
}

// TestNamedBy: a claim of any source, and a static pod that refers to one, names a volume. Without all of them that nothing does
// is an error; that something does is known before.
func TestNamedBy(t *testing.T) {
	ref := func(namespace, name string) objects.Ref {
		return objects.Ref{Kind: objects.Claim, Source: "file", Namespace: namespace, Name: name}
	}
	for name, tc := range map[string]struct {
		claims         []objects.Ref
		pods           []podview.Pod
		unready        []string
		known, settled bool
		// want is a part of what names it, or of the error of those that aren't known.
		want string
		err  bool
		// broken is set without a connection to podconfigd.
		broken bool
	}{
		"nothing":                    {known: true, settled: true},
		"a claim":                    {claims: []objects.Ref{ref("default", "other"), ref("default", "data")}, known: true, settled: true, want: "claim default/data of source file"},
		"a claim before the rest":    {claims: []objects.Ref{ref("default", "data")}, want: "claim default/data of source file"},
		"claims of other names":      {claims: []objects.Ref{ref("data", "default"), ref("default", "data2")}, known: true, settled: true},
		"a pod without its claim":    {pods: []podview.Pod{referrer("file", "default", "data")}, known: true, settled: true, want: "pod default/web of source file"},
		"pods of others":             {pods: []podview.Pod{referrer("file", "shop", "data"), referrer("file", "default", "x"), {Namespace: "default"}}, known: true, settled: true},
		"a pod of the API server":    {pods: []podview.Pod{referrer("api", "default", "data")}, known: true, settled: true},
		"claims that aren't known":   {settled: true, want: "hasn't sent all", err: true},
		"a broken connection":        {known: true, settled: true, broken: true, want: "no connection to podconfigd", err: true},
		"a claim, then a break":      {claims: []objects.Ref{ref("default", "data")}, known: true, settled: true, broken: true, want: "claim default/data"},
		"pods that aren't known":     {known: true, unready: []string{"file", "http"}, want: "not ready: file, http", err: true},
		"before podexecd works":      {known: true, want: "hasn't sent all", err: true},
		"very many unready sources":  {known: true, unready: []string{strings.Repeat("x", 1<<20)}, want: "not ready: x", err: true},
		"a pod before its own claim": {pods: []podview.Pod{referrer("http", "default", "data")}, known: true, unready: []string{"file"}, want: "pod default/web"},
	} {
		n := namer{
			claims:  func() ([]objects.Ref, bool) { return tc.claims, tc.known },
			pods:    func() []podview.Pod { return tc.pods },
			unready: func() ([]string, bool) { return tc.unready, tc.settled }, connected: func() bool { return !tc.broken },
		}
		got, err := n.namedBy(directory.Claim{Namespace: "default", Name: "data"})
		if tc.err {
			if got != "" || errors.Is(err, errDisconnected) != tc.broken || errors.Is(err, errUnknownPods) == tc.broken || !strings.Contains(err.Error(), tc.want) || len(err.Error()) > 1000 {
				t.Errorf("%s: %q, %.1000v", name, got, err)
			}
			continue
		}
		if err != nil || !strings.Contains(got, tc.want) || (tc.want == "") != (got == "") {
			t.Errorf("%s: %q, %v; want %q", name, got, err, tc.want)
		}
	}
}

// TestNamedByOrder: whether all pods are known is read before the pods: those that come in between are seen.
func TestNamedByOrder(t *testing.T) {
	var steps []string
	n := namer{
		claims:    func() ([]objects.Ref, bool) { steps = append(steps, "claims"); return nil, true },
		pods:      func() []podview.Pod { steps = append(steps, "pods"); return nil },
		unready:   func() ([]string, bool) { steps = append(steps, "unready"); return nil, true },
		connected: func() bool { return true },
	}
	if _, err := n.namedBy(directory.Claim{}); err != nil || strings.Join(steps, " ") != "unready claims pods" {
		t.Errorf("%v, %v", steps, err)
	}
}
