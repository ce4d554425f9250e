package csidriver

import (
	"fmt"
	"strings"
)

// Manifest returns the documents that static pods of a namespace need for volumes of a driver that attaches none: the CSIDriver, and
// for each volume ID a PersistentVolume and a claim of that name.
func Manifest(driver, namespace string, volumes ...string) string {
	var text strings.Builder
	fmt.Fprintf(&text, "apiVersion: storage.k8s.io/v1\nkind: CSIDriver\nmetadata: {name: %s}\nspec: {attachRequired: false}\n", driver)
	for _, id := range volumes {
		fmt.Fprintf(&text, `---
apiVersion: v1
kind: PersistentVolume
metadata: {name: %[1]s}
spec: {accessModes: [ReadWriteOnce], capacity: {storage: 1Mi}, csi: {driver: %[2]s, volumeHandle: %[1]s}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: %[1]s, namespace: %[3]s}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Mi}}, volumeName: %[1]s}
`, id, driver, namespace)
	}
	return text.String()
}
