package execsvc

import (
	"context"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/execsvc/loop/worker"
)

// RemoveDead removes exited containers that nothing depends on, when the disk fills: all of a pod that has ended, and
// of other pods all but the last one of each name. Their logs are removed too. The statuses of ended pods don't need
// them.
func (a *Agent) RemoveDead(ctx context.Context) error {
	found, current := a.pleg.Pods()
	if !current || a.cfg.Garbage == nil {
		return nil
	}
	sources := map[types.UID]string{}
	for _, pod := range found {
		sources[pod.UID] = pod.Source
	}
	return a.cfg.Garbage.RemoveAll(ctx, found, func(uid types.UID) bool {
		if w, working := a.workers.Get(uid); working {
			return w.State != worker.Finished
		}
		return a.pods.Get(uid) != nil || !a.pods.Settled(sources[uid])
	})
}

// Images returns the images that the pods of this node need, by the names in their specs. A pod that has ended needs
// none, unless it starts again.
func (a *Agent) Images() []string {
	names := map[string]bool{}
	for _, pod := range a.pods.All() {
		_, again := a.startsAgain(pod)
		if w, working := a.workers.Get(pod.UID); !working || w.State != worker.Finished || again {
			addImages(names, &pod.Spec)
		}
	}
	for _, w := range a.workers.All() {
		if w.State != worker.Finished {
			addImages(names, &w.Pod.Spec)
		}
	}
	return slices.Sorted(maps.Keys(names))
}

func addImages(names map[string]bool, spec *v1.PodSpec) {
	for _, c := range slices.Concat(spec.InitContainers, spec.Containers) {
		names[c.Image] = true
	}
	for _, c := range spec.EphemeralContainers {
		names[c.Image] = true
	}
	for _, v := range spec.Volumes {
		if v.Image != nil {
			names[v.Image.Reference] = true
		}
	}
	// An image of a container, or a reference of a volume, may be set later by an update.
	delete(names, "")
}
