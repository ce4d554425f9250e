package podmount

import (
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// Options returns the mount options of a PersistentVolume, as the kubelet has them: those of the old annotation take
// precedence, each is there once, and they are sorted.
func Options(pv *v1.PersistentVolume, more ...string) []string {
	given := pv.Spec.MountOptions
	if text, ok := pv.Annotations[v1.MountOptionAnnotation]; ok {
		given = strings.Split(text, ",")
	}
	all := slices.Concat(given, more)
	slices.Sort(all)
	return slices.DeleteFunc(slices.Compact(all), func(o string) bool { return o == "" })
}
