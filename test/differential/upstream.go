package differential

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubelet/config"
	kubetypes "k8s.io/kubernetes/pkg/kubelet/types"
)

// Upstream is a PodConfig of the kubelet in one mode.
type Upstream struct {
	config  *config.PodConfig
	sources map[string]chan<- any
	stop    context.CancelFunc
}

// NewUpstream returns an Upstream with Sources. The caller ends it with Close.
func NewUpstream(mode Mode) *Upstream {
	// The zero Logger drops PodConfig's messages about pods that it ignores.
	ctx, stop := context.WithCancel(klog.NewContext(context.Background(), klog.Logger{}))
	u := &Upstream{
		config: config.NewPodConfig(mode.upstream, &record.FakeRecorder{}, unobserved{}), sources: map[string]chan<- any{}, stop: stop,
	}
	for _, name := range Sources {
		u.sources[name] = u.config.Channel(ctx, name)
	}
	return u
}

// Set merges the set and returns the resulting ops.
func (u *Upstream) Set(s Step) ([]Op, error) {
	set := kubetypes.PodUpdate{Op: kubetypes.SET, Source: s.Source}
	for _, p := range s.Pods {
		set.Pods = append(set.Pods, p.DeepCopy())
	}
	source := u.sources[s.Source]
	source <- set
	// A source's channel isn't buffered, and its reader has merged one update, including its ops, before it
	// reads the next. An ADD without pods changes nothing in any mode. Once it is read, all ops of the set are
	// in the channel of updates, which has space for 50. A set produces at most five.
	source <- kubetypes.PodUpdate{Op: kubetypes.ADD, Source: s.Source}
	var ops []Op
	for {
		select {
		case update := <-u.config.Updates():
			name, ok := upstreamOps[update.Op]
			if !ok {
				return nil, fmt.Errorf("upstream's op %d isn't known", update.Op)
			}
			ops = append(ops, Op{Op: name, Source: update.Source, Pods: update.Pods})
		default:
			return ops, nil
		}
	}
}

var upstreamOps = map[kubetypes.PodOperation]string{
	kubetypes.SET: "SET", kubetypes.ADD: "ADD", kubetypes.DELETE: "DELETE", kubetypes.REMOVE: "REMOVE",
	kubetypes.UPDATE: "UPDATE", kubetypes.RECONCILE: "RECONCILE",
}

// Close ends its goroutines. They end when their channel is closed, but start again while the context isn't
// canceled.
func (u *Upstream) Close() {
	u.stop()
	for _, source := range u.sources {
		close(source)
	}
}

// unobserved is an observer of start-up times for the kubelet. Its answers are not used.
type unobserved struct{}

func (unobserved) ObservedPodOnWatch(*v1.Pod, time.Time) {}
