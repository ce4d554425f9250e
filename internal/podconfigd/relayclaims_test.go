package podconfigd

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

const claimText = `
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  containers: [{name: main, image: one, volumeMounts: [{name: v, mountPath: /v}]}]
  volumes: [{name: v, persistentVolumeClaim: {claimName: data}}]
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}, volumeName: pv}
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: pv}
spec: {accessModes: [ReadWriteOnce], capacity: {storage: 1Gi}, csi: {driver: d.example.com, volumeHandle: h}}
---
apiVersion: storage.k8s.io/v1
kind: CSIDriver
metadata: {name: d.example.com}
spec: {attachRequired: false}
`

// TestRelayedClaims: a pod's claim comes through two relays with the pod, and with it its PersistentVolume and CSIDriver.
func TestRelayedClaims(t *testing.T) {
	up, mid, dir := shortDir(t), shortDir(t), shortDir(t)
	launch(t, up, t.Output())
	if err := os.WriteFile(filepath.Join(up, "manifests", "web.yaml"), []byte(claimText), 0o600); err != nil {
		t.Fatal(err)
	}
	launch(t, mid, t.Output(), "--relay-from", "up=unix://"+filepath.Join(up, "s"))
	r := launch(t, dir, t.Output(), "--relay-from", "mid=unix://"+filepath.Join(mid, "s"))
	s, err := r.api.WatchObjects(t.Context(), &podconfigv1.WatchObjectsRequest{
		Format: podconfigv1.PodFormat_POD_FORMAT_REFERENCE,
		Kinds: []podconfigv1.ObjectKind{
			podconfigv1.ObjectKind_OBJECT_KIND_PERSISTENT_VOLUME_CLAIM, podconfigv1.ObjectKind_OBJECT_KIND_PERSISTENT_VOLUME,
			podconfigv1.ObjectKind_OBJECT_KIND_CSI_DRIVER,
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	got, want := map[string]bool{}, []string{"relay:mid /d.example.com", "relay:mid /pv", "relay:mid default/data"}
	for !slices.Equal(slices.Sorted(maps.Keys(got)), want) {
		m, err := s.Recv()
		if err != nil {
			t.Fatalf("%v; it has %v, want %s", err, got, strings.Join(want, ", "))
		}
		for _, o := range m.GetUpdate().GetObjects() {
			ref := o.GetRef()
			if m.GetUpdate().GetOp() == podconfigv1.ObjectOperation_OBJECT_OPERATION_PUT || m.GetUpdate().GetOp() == podconfigv1.ObjectOperation_OBJECT_OPERATION_SET {
				got[ref.GetSource()+" "+ref.GetNamespace()+"/"+ref.GetName()] = true
			}
		}
	}
}
