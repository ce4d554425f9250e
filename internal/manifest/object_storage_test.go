package manifest

import (
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
)

const storageManifest = `apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: disk, namespace: db}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}, volumeName: disk-1}
status: {phase: Bound}
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: disk-1}
spec:
  accessModes: [ReadWriteOnce]
  capacity: {storage: 1Gi}
  csi: {driver: disks.example.com, volumeHandle: vol-1, volumeAttributes: {a: b}}
---
apiVersion: storage.k8s.io/v1
kind: CSIDriver
metadata: {name: disks.example.com}
spec: {attachRequired: false}
`

// TestStorageObjects: the claims, PersistentVolumes and CSIDrivers beside pods are read, with the API server's defaults,
// and each has what it needs.
func TestStorageObjects(t *testing.T) {
	o := Parse([]byte(storageManifest), Options{Origin: "/m/a.yaml", Node: "n1"})
	if o.Held || len(o.Objects) != 4 {
		t.Fatalf("held %v, with %d objects and findings %v", o.Held, len(o.Objects), o.Findings)
	}
	var keys, needs []string
	for _, object := range o.Objects {
		keys = append(keys, object.Key().String())
		if need, ok := object.Needs(); ok {
			needs = append(needs, need.String())
		}
		if object.Content().Size() == 0 || object.Digest == "" || object.WithKind().GetObjectKind().GroupVersionKind() != object.Kind().GroupVersionKind() {
			t.Errorf("%s isn't complete", object.Key())
		}
	}
	want := []string{
		"PersistentVolumeClaim default/data", "PersistentVolumeClaim db/disk", "PersistentVolume disk-1", "CSIDriver disks.example.com",
	}
	if !slices.Equal(keys, want) || !slices.Equal(needs, want[2:]) {
		t.Errorf("the keys are %q, and they need %q", keys, needs)
	}
	driver := o.Objects[3].Driver.Spec
	if len(driver.VolumeLifecycleModes) != 1 || *driver.AttachRequired || o.Objects[2].Volume.Spec.PersistentVolumeReclaimPolicy != v1.PersistentVolumeReclaimRetain {
		t.Errorf("without their defaults: %v, %v", driver, o.Objects[2].Volume.Spec)
	}
	if len(o.Findings) != 1 || o.Findings[0].Field != "status" || o.Findings[0].Severity != Warning {
		t.Errorf("the findings are %v; want a warning about the status", o.Findings)
	}
	if o.Objects[0].Digest == o.Objects[1].Digest {
		t.Error("claims with other specs have one digest")
	}
}

// TestStorageRefused: what has no effect on a node without a controller is refused by the name of its field, and holds the
// origin.
func TestStorageRefused(t *testing.T) {
	for name, c := range map[string]struct{ from, to, field string }{
		"class":           {"volumeName: disk-1", "storageClassName: fast", "spec.storageClassName"},
		"data source":     {"volumeName: disk-1", "dataSource: {kind: VolumeSnapshot, name: s}", "spec.dataSource"},
		"selector":        {"volumeName: disk-1", "selector: {matchLabels: {a: b}}", "spec.selector"},
		"no access mode":  {"accessModes: [ReadWriteOnce], resources", "resources", "spec.accessModes"},
		"access mode":     {"accessModes: [ReadWriteOnce], resources", "accessModes: [Often], resources", "spec.accessModes[0]"},
		"no size":         {"resources: {requests: {storage: 1Gi}}}", "volumeMode: Filesystem}", "spec.resources.requests[storage]"},
		"block":           {"volumeName: disk-1", "volumeMode: Block, volumeName: disk-1", "spec.volumeMode"},
		"path in name":    {"volumeName: disk-1", "volumeName: ../disk", "spec.volumeName"},
		"namespace of PV": {"{name: disk-1}", "{name: disk-1, namespace: db}", "metadata.namespace"},
		"another source":  {"csi: {driver: disks.example.com, volumeHandle: vol-1, volumeAttributes: {a: b}}", "hostPath: {path: /}", "spec.csi"},
		"secret":          {"volumeAttributes: {a: b}", "nodeStageSecretRef: {name: s, namespace: ns}", "spec.csi.nodeStageSecretRef"},
		"deleted":         {"csi: {", "persistentVolumeReclaimPolicy: Delete\n  csi: {", "spec.persistentVolumeReclaimPolicy"},
		"node affinity":   {"csi: {", "nodeAffinity: {required: {nodeSelectorTerms: [{}]}}\n  csi: {", "spec.nodeAffinity"},
		"no handle":       {"volumeHandle: vol-1, ", "", "spec.csi.volumeHandle"},
		"driver":          {"driver: disks.example.com", "driver: ../disks", "spec.csi.driver"},
		"attached":        {"{attachRequired: false}", "{}", "spec.attachRequired"},
		"tokens":          {"{attachRequired: false}", "{attachRequired: false, tokenRequests: [{audience: a}]}", "spec.tokenRequests"},
		"republished":     {"{attachRequired: false}", "{attachRequired: false, requiresRepublish: true}", "spec.requiresRepublish"},
	} {
		t.Run(name, func(t *testing.T) {
			text := strings.Replace(storageManifest, c.from, strings.ReplaceAll(c.to, "\\n", "\n"), 1)
			if text == storageManifest {
				t.Fatal("nothing is replaced")
			}
			o := Parse([]byte(text), Options{Origin: "/m/a.yaml", Node: "n1"})
			has := slices.ContainsFunc(o.Findings, func(f Finding) bool { return f.Severity == Error && f.Field == c.field && f.Document > 0 })
			if !o.Held || !o.ObjectsUnknown || !has || len(o.Objects) != 3 {
				t.Errorf("held %v, %d objects, findings %v; want an error of %s", o.Held, len(o.Objects), o.Findings, c.field)
			}
		})
	}
}

// TestStorageItems: each of these objects at a URL has an origin of its own.
func TestStorageItems(t *testing.T) {
	var names []string
	for _, item := range ParseItems([]byte(storageManifest), Options{Origin: "http://h", OriginKind: URLKind, Node: "n1"}, nil) {
		names = append(names, item.Origin.Name)
	}
	want := []string{
		"http://h#PersistentVolumeClaim default/data", "http://h#PersistentVolumeClaim db/disk", "http://h#PersistentVolume disk-1",
		"http://h#CSIDriver disks.example.com",
	}
	if !slices.Equal(names, want) {
		t.Errorf("the origins are %q", names)
	}
}

// TestClaimOfPod: a static pod can use claims, by names that are fit for directories.
func TestClaimOfPod(t *testing.T) {
	pod := func(claim string) *Origin {
		return Parse([]byte("apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n  containers: [{name: a, image: a}]\n"+
			"  volumes: [{name: v, persistentVolumeClaim: {claimName: '"+claim+"'}}, {name: w, persistentVolumeClaim: {claimName: '"+claim+"'}}]\n"),
			Options{Origin: "/m/a.yaml", Node: "n1"})
	}
	if o := pod("data"); o.Held || len(o.Pods) != 1 || !slices.Equal(Claims(o.Pods[0].Pod), []ObjectKey{{ClaimKind, "default", "data"}}) {
		t.Errorf("the pod has the findings %v", o.Findings)
	}
	for _, name := range []string{"", "..", "a/b", "A"} {
		if o := pod(name); !o.Held {
			t.Errorf("a claim named %q is accepted", name)
		}
	}
}
