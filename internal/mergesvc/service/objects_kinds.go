package service

import (
	"fmt"

	"github.com/podstream/podstream/internal/manifest"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// maxKinds is more than Kubernetes has that a node needs.
const maxKinds = 100

// kindsOf returns which kinds a request selects: ConfigMaps and Secrets, and the listed ones.
func kindsOf(listed []podconfigv1.ObjectKind) func(manifest.ObjectKind) bool {
	selected := map[manifest.ObjectKind]bool{manifest.ConfigMapKind: true, manifest.SecretKind: true}
	for _, k := range listed {
		selected[manifest.ObjectKind(k)] = true
	}
	return func(k manifest.ObjectKind) bool { return selected[k] }
}

// kindsHash distinguishes the cursors of streams with different kinds. It is empty for ConfigMaps and Secrets only.
func kindsHash(selects func(manifest.ObjectKind) bool) string {
	hash := ""
	for k := manifest.SecretKind + 1; k <= manifest.DriverKind; k++ {
		if selects(k) {
			hash += fmt.Sprintf("+%d", k)
		}
	}
	return hash
}
