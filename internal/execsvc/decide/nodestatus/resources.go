package nodestatus

import (
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Extended reports whether the resource isn't one of Kubernetes' own, such as example.com/gpu.
func Extended(name v1.ResourceName) bool {
	text := string(name)
	if !strings.Contains(text, "/") || strings.Contains(text, v1.ResourceDefaultNamespacePrefix) ||
		strings.HasPrefix(text, v1.DefaultResourceRequestsPrefix) {
		return false
	}
	// A quota must be able to name it.
	return len(validation.IsQualifiedName(v1.DefaultResourceRequestsPrefix+text)) == 0
}
