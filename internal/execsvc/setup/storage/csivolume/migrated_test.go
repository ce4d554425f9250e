package csivolume

import (
	"testing"

	"github.com/podstream/podstream/internal/execsvc/setup/storage"
	"github.com/podstream/podstream/internal/execsvc/setup/storage/record"
	"github.com/podstream/podstream/internal/metrictest"
	"github.com/podstream/podstream/internal/roottest"
)

// TestMigrated: a pod's own volume of an in-tree plugin is attached, staged and published like that of a claim, under the name of its
// directory, and the metric says that it is migrated. That of a claim isn't, unless its PersistentVolume was translated.
func TestMigrated(t *testing.T) {
	roottest.Need(t, "mount")
	for _, migrated := range []string{"false", "true"} {
		n := newBench(t, canStage)
		p, spec := pod()
		if migrated == "true" {
			spec.PersistentVolumeClaim = nil
			n.pv.Name, n.pv.Annotations = driverName+"-[store] a~b.vmdk", map[string]string{"pv.kubernetes.io/migrated-to": driverName}
		}
		v, err := n.Persistent(t.Context(), p, spec, n.pv)
		must(t, err)
		want := record.Traits{Backend: BackendName, Stages: true, Attaches: true, UniqueName: PluginName + "/" + driverName + "^" + handle}
		if v.Traits != want || v.Name != n.pv.Name {
			t.Errorf("it has the name %s, and %+v", v.Name, v.Traits)
		}
		s := storage.Staging{Key: v.Key, Args: v.StageArgs}
		must(t, n.Stage(t.Context(), s))
		publishing := storage.Publishing{
			Staging: s, Staged: true, UID: p.UID, Plugin: v.Plugin, Name: v.Name, Args: v.PublishArgs,
			Dir: n.kubelet + "/pods/" + podUID + "/volumes/kubernetes.io~csi/" + v.Name,
		}
		must(t, n.Publish(t.Context(), publishing), n.Unpublish(t.Context(), publishing), n.Unstage(t.Context(), s))
		of := func(method, migrated string) string {
			return "csi_operations_seconds{driver_name=" + driverName + ",method_name=/csi.v1.Node/" + method + ",grpc_status_code=OK,migrated=" + migrated + "}"
		}
		metrictest.Want(t, n.metrics, map[string]float64{
			of("NodeStageVolume", migrated): 1, of("NodePublishVolume", migrated): 1,
			of("NodeUnpublishVolume", "false"): 1, of("NodeUnstageVolume", "false"): 1,
		})
	}
}
