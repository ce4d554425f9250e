package storage

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstream/podstream/internal/execsvc/criconfig"
)

// Usage is what a pod uses of the node's disk, in bytes as they are taken there.
type Usage struct {
	// Volumes are its emptyDirs on disk, by name.
	Volumes map[string]int64
	// Logs and Layers are by container: the logs of all its attempts, and the writable layer of the latest one.
	Logs, Layers map[string]int64
}

// Total is all of it.
func (u Usage) Total() int64 {
	var sum int64
	for _, part := range []map[string]int64{u.Volumes, u.Logs, u.Layers} {
		for _, bytes := range part {
			sum += bytes
		}
	}
	return sum
}

// Container is what counts as the container's own.
func (u Usage) Container(name string) int64 { return u.Logs[name] + u.Layers[name] }

// Measure finds out what the pod uses. It may take as long as MaxTime. After an error the Usage is what could be found out, and less than what
// is used.
func (w *Watcher) Measure(ctx context.Context, pod *v1.Pod) (Usage, error) {
	return w.measure(ctx, pod, limits{volumes: true, whole: true})
}

// measure finds out what has to be known for the limits.
func (w *Watcher) measure(ctx context.Context, pod *v1.Pod, of limits) (Usage, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, w.cfg.MaxTime, fmt.Errorf("it took longer than %v to count files", w.cfg.MaxTime))
	defer cancel()
	count := &counter{ctx: ctx, left: w.cfg.MaxFiles}
	used := Usage{Volumes: map[string]int64{}}
	var errs []error
	for volume := range emptyDirs(pod) {
		if !of.whole && !bounds(volume.EmptyDir.SizeLimit) {
			continue
		}
		bytes, err := count.tree(w.cfg.Dir(pod, volume.Name))
		if used.Volumes[volume.Name] = bytes; err != nil {
			errs = append(errs, fmt.Errorf("volume %q: %w", volume.Name, err))
		}
	}
	if !of.whole {
		return used, errors.Join(errs...)
	}
	var err error
	if used.Logs, err = w.logs(count, pod); err != nil {
		errs = append(errs, fmt.Errorf("logs: %w", err))
	}
	if used.Layers, err = w.layers(ctx, pod.UID); err != nil {
		errs = append(errs, fmt.Errorf("writable layers: %w", err))
	}
	return used, errors.Join(errs...)
}

// logs are the sizes of the logs by container.
func (w *Watcher) logs(count *counter, pod *v1.Pod) (map[string]int64, error) {
	dir := criconfig.LogDir(w.cfg.LogsDir, pod.Namespace, pod.Name, pod.UID)
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	sizes, errs := map[string]int64{}, []error{err}
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		bytes, err := count.tree(filepath.Join(dir, e.Name()))
		sizes[e.Name()], errs = bytes, append(errs, err)
	}
	return sizes, errors.Join(errs...)
}

// layers are the sizes of the writable layers by container. Of a container's attempts the latest one counts, as the others are about to be
// removed.
func (w *Watcher) layers(ctx context.Context, uid types.UID) (map[string]int64, error) {
	stats, err := w.cfg.Stats.ListContainerStats(ctx, &runtimeapi.ContainerStatsFilter{
		LabelSelector: map[string]string{criconfig.PodUIDLabel: string(uid)},
	})
	if err != nil {
		return nil, err
	}
	sizes, latest := map[string]int64{}, map[string]uint32{}
	for _, s := range stats {
		container := s.GetAttributes().GetMetadata()
		name := container.GetName()
		if _, known := sizes[name]; known && container.GetAttempt() < latest[name] {
			continue
		}
		sizes[name], latest[name] = int64(s.GetWritableLayer().GetUsedBytes().GetValue()), container.GetAttempt() //nolint:gosec // It is a size.
	}
	return sizes, nil
}
