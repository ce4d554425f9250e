package apiserver

import (
	"context"
	"errors"
	"testing"

	"golang.org/x/time/rate"

	"github.com/podstream/podstream/internal/certtest"
	"github.com/podstream/podstream/internal/sources/apiserver/apitest"
)

// waits has a request wait at the gate, and returns a channel that is closed once it may begin.
func waits(t *testing.T, g *gate, namespace string) <-chan struct{} {
	t.Helper()
	before := queued(g)
	entered := make(chan struct{})
	go func() {
		defer close(entered)
		if _, err := g.enter(t.Context(), namespace); err != nil && t.Context().Err() == nil {
			t.Error(err)
		}
	}()
	for queued(g) == before {
		select {
		case <-entered:
			t.Fatal("it didn't wait")
		default:
		}
	}
	return entered
}

func queued(g *gate) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.queue.Len()
}

// TestGateIsFairBetweenNamespaces: a namespace with thousands of objects doesn't delay one object of another namespace.
func TestGateIsFairBetweenNamespaces(t *testing.T) {
	g := newGate()
	g.pace = rate.NewLimiter(rate.Inf, 0)
	for range objectsUnderway {
		if _, err := g.enter(t.Context(), "large"); err != nil {
			t.Fatal(err)
		}
	}
	var large []<-chan struct{}
	for range 50 {
		large = append(large, waits(t, g, "large"))
	}
	small := waits(t, g, "small")
	g.leave()
	g.leave()
	<-small
	<-large[0]
	for range large[1:] {
		g.leave()
	}
	for _, entered := range large {
		<-entered
	}
}

// TestGateAfterACancelledWait: one that gives up takes no place.
func TestGateAfterACancelledWait(t *testing.T) {
	g := newGate()
	for range objectsUnderway {
		if _, err := g.enter(t.Context(), "ns"); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := g.enter(ctx, "ns"); !errors.Is(err, context.Canceled) {
		t.Errorf("the error is %v", err)
	}
	entered := waits(t, g, "ns")
	g.leave()
	<-entered
	for range objectsUnderway {
		g.leave()
	}
	if g.free != objectsUnderway {
		t.Errorf("%d places are free; want %d", g.free, objectsUnderway)
	}
}

// TestWatchesShareConnections: hundreds of watches have a few connections, of as many streams as the server allows.
func TestWatchesShareConnections(t *testing.T) {
	server := apitest.New(t, apitest.Config{CA: certtest.NewCA(t, "cluster")})
	s := newSource(t, Config{RESTConfig: server.RESTConfig(apitest.Identity{})})
	s.gate.pace = rate.NewLimiter(rate.Inf, 0)
	f := followBy(t, s)
	const n = 400
	keys, want := putMany(server, n, secretKey)
	f.wanted <- keys
	f.await(t, want)
	server.AwaitWatches("secrets", n)
	dials := s.server.dials.Load()
	t.Logf("%d watches have %d connections", n, dials)
	if dials > n/4 {
		t.Errorf("%d watches made %d connections", n, dials)
	}
}
