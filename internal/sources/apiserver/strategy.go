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

// ChangeDetection is how changes of the objects that pods refer to are found: KubeletConfiguration's configMapAndSecretChangeDetectionStrategy.
type ChangeDetection string

// The ways to find changes. The kubelet asks for an object when it syncs a pod that refers to it, that is each minute; so do Cache and Get
// here, and when another pod comes to refer to it, or one that does has changed.
const (
	// Watch has a watch for each object, and is what an empty ChangeDetection means.
	Watch ChangeDetection = "Watch"
	// Cache asks for each object when its time is over: that of the Node's annotation node.alpha.kubernetes.io/ttl, but a minute at least,
	// and a minute where that was never read.
	Cache ChangeDetection = "Cache"
	// Get asks for each object each minute.
	Get ChangeDetection = "Get"
)

const (
	// resync is how often the kubelet syncs a pod to which nothing happens.
	resync = time.Minute
	// defaultTTL is how long an object counts as known where nobody says.
	defaultTTL = time.Minute
	// nodeFrequency is how often the Node is read, and nodeTimeout how long that may take.
	nodeFrequency, nodeTimeout = 5 * time.Minute, 10 * time.Second
)

// strategy keeps what is told of objects up to date.
type strategy interface {
	// follow tells the follower of its object until ctx ends.
	follow(ctx context.Context, f *follower)
}

// newStrategy is the one that the Source's configuration names.
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
	}
	w.source.reflect(ctx, r, example, f)
}

// nodeTTL is how long objects count as known, by the word of the cluster's controller that knows how many nodes ask. It is read from the
// Node now and then by those who want to know.
type nodeTTL struct {
	source *Source

	mu sync.Mutex
	// ttl is by the last word of the Node; zero before there was one. next is when it is read again.
	ttl  time.Duration
	next time.Time
}

func (n *nodeTTL) get(ctx context.Context) time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := n.source.cfg.Clock.Now()
	if !now.Before(n.next) {
		// A Node that can't be read says nothing new: a server in trouble isn't to be asked for more.
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

// read asks for the Node; false: it can't be read. Who reads the pods of several nodes has none of its own.
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
