package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/client"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	"github.com/podstream/podstream/test/rig"
)

// hollow is a node that only holds what it is sent, as podexecd stores it.
type hollow struct {
	node   string
	cancel func()
	ended  chan struct{}
	signal chan struct{}

	mu     sync.Mutex
	cursor *podconfigv1.Cursor
	pods   map[types.UID]client.Pod
	ready  bool
	held   string
	// removed and added count the pods since follow.
	removed, added int
	// gone are the pods that it was told to remove, and back counts those of them that came again.
	gone map[types.UID]bool
	back int
}

func newHollow(node string) *hollow {
	return &hollow{node: node, pods: map[types.UID]client.Pod{}, gone: map[types.UID]bool{}}
}

// follow has the node follow a gateway, from where it is.
func (h *hollow) follow(t *testing.T, g *gateway) {
	t.Helper()
	h.connect(t, client.Config{Endpoint: "unix://" + g.path("socket"), Consumer: h.node, Heartbeat: time.Second})
}

// connect has the node follow the gateway, or one of the gateways, of a configuration, from where it is.
func (h *hollow) connect(t *testing.T, cfg client.Config) {
	t.Helper()
	c := rig.Get(client.New(cfg))(t)
	ctx, cancel := context.WithCancel(t.Context())
	h.ended, h.signal = make(chan struct{}), make(chan struct{}, 1)
	h.cancel = func() {
		cancel()
		<-h.ended
		_ = c.Close()
	}
	h.mu.Lock()
	h.removed, h.added, h.ready, h.held = 0, 0, false, ""
	opts := client.WatchOptions{
		ResumeAfter: h.cursor, Known: slices.Collect(maps.Values(h.pods)), Filter: &podconfigv1.PodFilter{Nodes: []string{h.node}},
	}
	h.mu.Unlock()
	go func() {
		defer close(h.ended)
		if err := c.Watch(ctx, opts, h.apply); err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("node %s: %v", h.node, err)
		}
	}()
}

func (h *hollow) leave() { h.cancel() }

func (h *hollow) apply(_ context.Context, e client.Event) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range e.Ops {
		for _, p := range c.Pods {
			_, held := h.pods[p.UID]
			switch {
			case c.Op == client.Remove:
				if held {
					h.removed++
				}
				delete(h.pods, p.UID)
				h.gone[p.UID] = true
				continue
			case !held:
				h.added++
				if h.gone[p.UID] {
					h.back++
				}
			}
			p.Object = nil
			h.pods[p.UID] = p
		}
		h.ready = h.ready || c.SourceReady
	}
	for _, s := range e.Sources {
		if s.Name == "api" {
			h.ready, h.held = s.Ready, s.HeldReason
		}
	}
	h.cursor = e.Cursor
	select {
	case h.signal <- struct{}{}:
	default:
	}
	return nil
}

func (h *hollow) uids() map[types.UID]bool {
	out := map[types.UID]bool{}
	for uid := range h.pods {
		out[uid] = true
	}
	return out
}

// await waits until the condition holds, which is checked after each event.
func (h *hollow) await(t *testing.T, what string, is func() bool) {
	t.Helper()
	deadline := time.NewTimer(time.Minute)
	defer deadline.Stop()
	for {
		h.mu.Lock()
		ok := is()
		state := fmt.Sprintf("%d pods, ready %t, held %q", len(h.pods), h.ready, h.held)
		h.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-h.signal:
		case <-deadline.C:
			t.Fatalf("node %s: %s: not after a minute; it has %s", h.node, what, state)
		}
	}
}
