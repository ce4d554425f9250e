package kubeletconfig

import (
	"reflect"
	"testing"

	"k8s.io/kubelet/config/v1beta1"

	"github.com/podstream/podstream/internal/kubeletconfig/document"
)

// TestEveryFieldHasAnOwner: a field that a new version of the type brings has to be put into the table.
func TestEveryFieldHasAnOwner(t *testing.T) {
	fields := map[string]bool{}
	for f := range document.Fields(reflect.TypeFor[v1beta1.KubeletConfiguration]()) {
		if f.Name == "kind" || f.Name == "apiVersion" {
			continue
		}
		fields[f.Name] = true
		if ownerOf(f.Name) == 0 {
			t.Errorf("%s isn't in the table", f.Name)
		}
	}
	seen := map[string]bool{}
	for _, f := range owners {
		if !fields[f.field] || seen[f.field] {
			t.Errorf("%s is in the table twice, or is no field", f.field)
		}
		seen[f.field] = true
	}
	for _, mine := range []string{
		"staticPodPath", "staticPodURL", "staticPodURLHeader", "fileCheckFrequency", "httpCheckFrequency", "configMapAndSecretChangeDetectionStrategy",
	} {
		if ownerOf(mine) != podconfigd {
			t.Errorf("%s belongs to %d; want podconfigd", mine, ownerOf(mine))
		}
	}
}
