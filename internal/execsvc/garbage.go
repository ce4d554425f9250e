package execsvc

import (
	"context"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/execsvc/worker"
)

// RemoveDead removes the ended containers that nothing hangs on, as the disk that they are on runs full: all of a pod that has ended, and of
// others all but the last one of each name. How a pod ended is known without them; their logs go too.
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

// Images are those that pods need which are here, or are to be, by the names that the pods have for them. A pod that has ended needs none, unless
// it begins anew.
func (a *Agent) Images() []string {
	names := map[string]bool{}
	for _, pod := range a.pods.All() {
		_, anew := a.beginsAnew(pod)
		if w, working := a.workers.Get(pod.UID); !working || w.State != worker.Finished || anew {
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
	// It has yet to be set, by who changes the pod: the image of a container, or the reference of a volume.
	delete(names, "")
}

// Settled tells whether all sources have told their pods.
func (a *Agent) Settled() bool { return a.pods.Settled("") }
