package podmeta

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestOrigin: the kind of the first source on a pod's path decides, whatever the source is named.
func TestOrigin(t *testing.T) {
	for _, tt := range []struct {
		source, path    string
		static, fromAPI bool
	}{
		{"", "", false, false},
		{"file", "", true, false},
		{"http:site", "", true, false},
		{"api", "", false, true},
		{"api:site", "", false, true},
		{"relay", "n(12345678)/file", true, false},
		{"relay", "n(12345678)/relay,m(23456789)/api", false, true},
		{"relay", "n(12345678)/relay,m(23456789)/file:pods/api", true, false},
	} {
		pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{SourceAnnotation: tt.source}}}
		if tt.path != "" {
			pod.Annotations[RelayPathAnnotation] = tt.path
		}
		if IsStatic(pod) != tt.static || FromAPI(pod) != tt.fromAPI {
			t.Errorf("%q by %q: static %v, from the API server %v; want %v, %v", tt.source, tt.path, IsStatic(pod), FromAPI(pod), tt.static, tt.fromAPI)
		}
	}
}
