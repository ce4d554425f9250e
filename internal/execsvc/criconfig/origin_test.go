package criconfig

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Where a pod comes from is what its first source was, by whatever way it came, and whatever the source is called.
func TestOrigin(t *testing.T) {
	for _, tt := range []struct {
		source, way     string
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
		pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{ConfigSourceAnnotation: tt.source}}}
		if tt.way != "" {
			pod.Annotations[relayPathAnnotation] = tt.way
		}
		if Static(pod) != tt.static || FromAPI(pod) != tt.fromAPI {
			t.Errorf("%q by %q: static %v, from the API server %v; want %v, %v", tt.source, tt.way, Static(pod), FromAPI(pod), tt.static, tt.fromAPI)
		}
	}
}
