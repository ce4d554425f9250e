package write

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstream/podstream/internal/manifest"
)

// TestKeyIn: a document has a key if it has one pod or object. The namespace of a second one would be checked by no role.
func TestKeyIn(t *testing.T) {
	pod := &manifest.Pod{Pod: &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-n1"}}}
	hidden := &manifest.Object{Secret: &v1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "hidden"}}}
	for name, tc := range map[string]struct {
		origin manifest.Origin
		want   Key
	}{
		"a pod":            {manifest.Origin{Pods: []*manifest.Pod{pod}}, Key{PodKind, "shop", "web"}},
		"two pods":         {manifest.Origin{Pods: []*manifest.Pod{pod, pod}}, Key{}},
		"a pod and object": {manifest.Origin{Pods: []*manifest.Pod{pod}, Objects: []*manifest.Object{hidden}}, Key{}},
		"nothing":          {manifest.Origin{}, Key{}},
	} {
		if got, ok := keyIn(&tc.origin, "n1"); got != tc.want || ok != (tc.want != Key{}) {
			t.Errorf("%s: %v, %v; want %v", name, got, ok, tc.want)
		}
	}
}
