package volume

import (
	"context"
	"io/fs"

	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/execsvc/machine/nodefs"
)

// nodePaths accesses paths of the node, to which hostPaths lead.
type nodePaths struct {
	waits *nodefs.Waits
	// stat is os.Stat; tests replace it.
	stat func(name string) (fs.FileInfo, error)
}

// lookAt returns the result of look, or an error if the file system of the path doesn't answer in time. look may
// still run after that.
func lookAt[T any](ctx context.Context, n *nodePaths, pod *v1.Pod, path string, look func() (T, error)) (T, error) {
	of := nodefs.Pod{UID: string(pod.UID), Namespace: pod.Namespace}
	return nodefs.Look(ctx, n.waits, of, path, func() (T, error) {
		// If this hangs, nothing else is tried.
		_, _ = n.stat(path)
		return look()
	}, nil)
}

// setUpHostPath calls the function of that name with a time limit.
func (n *nodePaths) setUpHostPath(ctx context.Context, pod *v1.Pod, source *v1.HostPathVolumeSource) error {
	if source.Type == nil || *source.Type == v1.HostPathUnset {
		return setUpHostPath(source) // It does not access the path.
	}
	source = source.DeepCopy()
	_, err := lookAt(ctx, n, pod, source.Path, func() (struct{}, error) { return struct{}{}, setUpHostPath(source) })
	return err
}

// await waits until the path's file system answers, or returns an error after a time limit. The callers' next access
// to the file system can't be interrupted.
func (n *nodePaths) await(ctx context.Context, pod *v1.Pod, path string) error {
	_, err := lookAt(ctx, n, pod, path, func() (struct{}, error) { return struct{}{}, nil })
	return err
}
