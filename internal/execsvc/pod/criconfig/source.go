package criconfig

import (
	"reflect"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// VolumeSourceName returns the manifest's name of the volume's source ("configMap"), also for one that a later
// Kubernetes adds.
func VolumeSourceName(source *v1.VolumeSource) string {
	for field, value := range reflect.ValueOf(source).Elem().Fields() {
		if !value.IsNil() {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			return name
		}
	}
	return "a volume without a source"
}
