package apiserver

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
)

// ChangeDetection is how changes of the objects that pods refer to are found: KubeletConfiguration's
// configMapAndSecretChangeDetectionStrategy.
type ChangeDetection string

// The kubelet reads an object when it syncs a pod that refers to it, that is each minute. So do Cache and Get here,
// and also when another pod refers to it, or one that does has changed.
const (
	// Watch has a watch for each object. An empty ChangeDetection means Watch.
	Watch ChangeDetection = "Watch"
	// Cache reads each object when its time is over: that of the Node's annotation node.alpha.kubernetes.io/ttl, but
	// at least a minute, and a minute if that was never read.
	Cache ChangeDetection = "Cache"
	// Get reads each object each minute.
	Get ChangeDetection = "Get"
)

const (
	// resync is how often the kubelet syncs an unchanged pod.
	resync = time.Minute
	// defaultTTL is how long a reading is valid by default.
	defaultTTL = time.Minute
	// nodeFrequency is how often the Node is read, and nodeTimeout the deadline of that.
	nodeFrequency, nodeTimeout = 5 * time.Minute, 10 * time.Second
)

// strategy keeps the objects up to date.
type strategy interface {
	// follow puts its object into the follower until ctx ends.
	follow(ctx context.Context, f *follower)
}

// newStrategy returns the strategy of the Source's configuration.
func newStrategy(s *Source) (strategy, error) {
	switch s.cfg.ChangeDetection {
	case Watch, "":
		return watching{s}, nil
	case Get:
		return polling{s, func(context.Context) time.Duration { return s.resync }}, nil
	case Cache:
		ttl := &nodeTTL{source: s}
		return polling{s, func(ctx context.Context) time.Duration { return max(ttl.get(ctx), s.resync) }}, nil
	default:
		return nil, fmt.Errorf("source api: there is no way to find changes of objects that is called %q", s.cfg.ChangeDetection)
	}
}

// watching has a watch for each object.
type watching struct{ source *Source }

func (w watching) follow(ctx context.Context, f *follower) {
	resource, example := kindOf(f.key.Kind)
	r := &reader{
		server: w.source.server, resource: resource, namespace: f.key.Namespace,
		selector: fields.OneTermEqualSelector("metadata.name", f.key.Name), observer: f,
		gate: w.source.gate,
	}
	w.source.reflect(ctx, r, example, f)
}

// nodeTTL is how long a reading is valid, as the cluster's controller sets it by the number of nodes. It is read from
// the Node when needed, now and then.
type nodeTTL struct {
	source *Source

	mu sync.Mutex
	// ttl is the last one read from the Node; zero if there was none. next is when it is read again.
	ttl  time.Duration
	next time.Time
}

func (n *nodeTTL) get(ctx context.Context) time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := n.source.cfg.Clock.Now()
	if !now.Before(n.next) {
		// If the Node can't be read, the TTL stays: a failing server must not get more requests.
		ttl, ok := n.read(ctx)
		if ok {
			n.ttl = ttl
		}
		if ok || ctx.Err() == nil {
			n.next = now.Add(nodeFrequency)
		}
	}
	return cmp.Or(n.ttl, defaultTTL)
}

// read reads the Node; false: it can't be read. A source of several nodes has no Node of its own.
func (n *nodeTTL) read(ctx context.Context) (time.Duration, bool) {
	if len(n.source.nodes) != 1 {
		return 0, false
	}
	ctx, cancel := context.WithTimeout(ctx, nodeTimeout)
	defer cancel()
	object, err := n.source.server.get("nodes", "", &metav1.ListOptions{ResourceVersion: "0"}).Name(n.source.nodes[0]).Do(ctx).Get()
	if err != nil {
		return 0, false
	}
	node, ok := object.(*v1.Node)
	if !ok {
		return 0, false
	}
	seconds, err := strconv.ParseInt(node.Annotations[v1.ObjectTTLAnnotationKey], 10, 32)
	if err != nil {
		return defaultTTL, true
	}
	return time.Duration(seconds) * time.Second, true
}
