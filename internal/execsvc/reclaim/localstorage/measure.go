package localstorage

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
	"github.com/podstream/podstream/internal/execsvc/reclaim/diskusage"
)

// Usage is a pod's usage of the node's disk.
type Usage struct {
	diskusage.Usage
	// Layers are the writable layers by container, each of its latest attempt. The sums below include them.
	Layers map[string]diskusage.Figure
	// LayersErr is why the writable layers are unknown. Nil: they are known.
	LayersErr error
}

// Total returns the sum of all figures but Others.
func (u Usage) Total() diskusage.Figure {
	sum := u.Usage.Total()
	for _, f := range u.Layers {
		sum.Bytes += f.Bytes
		sum.Inodes += f.Inodes
	}
	return sum
}

// minimumBytes returns a lower bound of the pod's usage: the last count or the unfinished one, whichever is more.
func (u Usage) minimumBytes() int64 {
	counted := u.Usage.Total().Bytes
	return u.Total().Bytes - counted + max(counted, u.Unfinished.Bytes)
}

// Container returns the sum of the container's own files: logs, writable layer, termination messages.
func (u Usage) Container(name string) diskusage.Figure {
	logs, layer, message := u.Logs[name], u.Layers[name], u.Messages[name]
	return diskusage.Figure{Bytes: logs.Bytes + layer.Bytes + message.Bytes, Inodes: logs.Inodes + layer.Inodes + message.Inodes}
}

// Err returns why the usage is incomplete; nil if it is complete.
func (u Usage) Err() error {
	var errs []error
	if u.Usage.Err != nil {
		errs = append(errs, u.Usage.Err)
	}
	if u.LayersErr != nil {
		errs = append(errs, fmt.Errorf("writable layers: %w", u.LayersErr))
	}
	return errors.Join(errs...)
}

const (
	// layerConcurrency is the number of concurrent requests for writable layers. layerTimeout bounds the time for all
	// of them.
	layerConcurrency, layerTimeout = 8, 5 * time.Second
)

// Measure returns the pods' usage. It recounts files that were counted longer than age ago, waits for that until ctx
// ends, and then returns what is known.
func (m *Manager) Measure(ctx context.Context, pods []*v1.Pod, age time.Duration) map[types.UID]Usage {
	return m.measure(ctx, ctx, pods, age, func(*v1.Pod) bool { return true })
}

// measure waits for file counts until counting ends, and requests the writable layers only of the pods that layers
// selects.
func (m *Manager) measure(ctx, counting context.Context, pods []*v1.Pod, age time.Duration, layers func(*v1.Pod) bool) map[types.UID]Usage {
	out := map[types.UID]Usage{}
	var mu sync.Mutex
	asking, cancel := context.WithTimeoutCause(ctx, layerTimeout, fmt.Errorf("the container runtime took longer than %v", layerTimeout))
	defer cancel()
	var group errgroup.Group
	group.SetLimit(layerConcurrency)
	asked := make(chan struct{})
	go func() {
		defer close(asked)
		for _, pod := range pods {
			if !layers(pod) {
				continue
			}
			group.Go(func() error {
				sizes, err := m.layers(asking, pod.UID)
				mu.Lock()
				defer mu.Unlock()
				out[pod.UID] = Usage{Layers: sizes, LayersErr: err}
				return nil
			})
		}
		_ = group.Wait()
	}()
	counted := m.cfg.Meter.Counts(counting, pods, age)
	<-asked
	for _, pod := range pods {
		u := out[pod.UID]
		u.Usage = counted[pod.UID]
		out[pod.UID] = u
	}
	return out
}

// layers returns the writable layers by container. Only a container's latest attempt counts: the others are about to
// be removed.
func (m *Manager) layers(ctx context.Context, uid types.UID) (map[string]diskusage.Figure, error) {
	stats, err := m.cfg.Stats.ListContainerStats(ctx, &runtimeapi.ContainerStatsFilter{
		LabelSelector: map[string]string{podmeta.PodUIDLabel: string(uid)},
	})
	if err != nil {
		return nil, err
	}
	sizes, latest := map[string]diskusage.Figure{}, map[string]uint32{}
	for _, s := range stats {
		container := s.GetAttributes().GetMetadata()
		name := container.GetName()
		if _, known := sizes[name]; known && container.GetAttempt() < latest[name] {
			continue
		}
		layer := s.GetWritableLayer()
		sizes[name] = diskusage.Figure{Bytes: bounded(layer.GetUsedBytes().GetValue()), Inodes: bounded(layer.GetInodesUsed().GetValue())}
		latest[name] = container.GetAttempt()
	}
	return sizes, nil
}

// bounded returns n, cut so that sums don't overflow.
func bounded(n uint64) int64 { return int64(min(n, math.MaxInt64>>10)) } //nolint:gosec // It is bounded.
