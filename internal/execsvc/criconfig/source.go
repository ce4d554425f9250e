package criconfig

import (
	"reflect"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// VolumeSourceName is the name that a manifest has for the volume's source ("configMap"), for one that Kubernetes brings later as well.
func VolumeSourceName(source *v1.VolumeSource) string {
	for field, value := range reflect.ValueOf(source).Elem().Fields() {
		if !value.IsNil() {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			return name
		}
	}
	return "a volume without a source"
}
