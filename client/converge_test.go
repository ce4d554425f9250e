package client_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/podstream/podstream/client"
	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/internal/mergesvc"
	"github.com/podstream/podstream/internal/mergesvc/merge"
	"github.com/podstream/podstream/internal/mergesvc/mergetest"
)

// TestConverges checks G2, G3 and G7 end to end: while random sets are merged, sources are added and removed, the
// server restarts, sometimes as another, empty, podconfigd, and the consumer restarts with its stored state. The
// history is short, so exact history, coalesced catch-ups, differences and SETs all occur. In the end the consumer
// holds podconfigd's pods, and every op fitted the pods that it held.
func TestConverges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, err := newPlace()
		if err != nil {
			t.Fatal(err)
		}
		defer p.remove()
		s := &struggle{t: t, place: p, pods: map[types.UID]client.Pod{}}
		s.newPodconfigd()
		s.serve()
		s.consume()
		defer func() { s.stopServer() }()
		defer func() { s.stopConsumer() }()
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			switch rapid.IntRange(0, 4).Draw(t, "step") {
			case 0:
				s.stopServer()
				if rapid.Bool().Draw(t, "history is lost") {
					s.newPodconfigd()
				}
				s.draw()
				s.serve()
			case 1:
				s.stopConsumer()
				s.draw()
				s.consume()
			case 2:
				s.configure(rapid.SliceOfNDistinct(rapid.SampledFrom(sourceNames), 1, 3, rapid.ID).Draw(t, "sources"))
				s.draw()
			default:
				s.draw()
			}
		}
		s.configure(sourceNames)
		for _, source := range s.daemon.hub.Sources() {
			if !source.Ready {
				s.daemon.hub.Apply(manifest.Set{Source: source.Name})
			}
		}
		s.daemon.set("file", "end: end()")
		s.awaitEnd()
	})
}

var sourceNames = []string{"file", "http", "api"}

// errEnd is the consumer's error that ends its Watch when it holds the pod "end".
var errEnd = errors.New("the end")

type struggle struct {
	t          *rapid.T
	place      place
	daemon     *daemon
	random     *mergetest.Random
	stopServer func()

	// The consumer, and what it keeps across its restarts: its own while it runs.
	stopConsumer func()
	ended        chan struct{}
	pods         map[types.UID]client.Pod
	options      client.WatchOptions
	failure      error
}

func (s *struggle) newPodconfigd() {
	s.daemon = &daemon{hub: mergesvc.NewHub(mergesvc.Config{Sources: sourcesOf(sourceNames), Revisions: 3, Tombstones: 3})}
	s.random = mergetest.NewRandom(sourceNames...)
}

func (s *struggle) configure(names []string) { s.daemon.hub.Configure(sourcesOf(names)) }

func sourcesOf(names []string) []merge.Source {
	var sources []merge.Source
	for _, name := range names {
		sources = append(sources, merge.Source{Name: name})
	}
	return sources
}

func (s *struggle) serve() {
	stop, err := s.daemon.serve(s.place)
	if err != nil {
		s.t.Fatal(err)
	}
	s.stopServer = stop
}

func (s *struggle) draw() {
	for range rapid.IntRange(0, 4).Draw(s.t, "sets") {
		s.daemon.hub.Apply(s.random.Draw(s.t))
	}
}

func (s *struggle) consume() {
	c, err := client.New(client.Config{Endpoint: s.place.endpoint})
	if err != nil {
		s.t.Fatal(err)
	}
	s.options.Known = nil
	for _, p := range s.pods {
		s.options.Known = append(s.options.Known, p)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.failure = c.Watch(ctx, s.options, s.handle)
	}()
	s.ended = ended
	s.stopConsumer = func() {
		cancel()
		<-ended
		_ = c.Close()
		if !errors.Is(s.failure, context.Canceled) && !errors.Is(s.failure, errEnd) {
			s.t.Fatalf("Watch ended with %v; want it to go on", s.failure)
		}
	}
}

// handle applies an event as a strict consumer.
func (s *struggle) handle(_ context.Context, e client.Event) error {
	for _, c := range e.Ops {
		for _, p := range c.Pods {
			held, ok := s.pods[p.UID]
			same := ok && held.Source == p.Source && held.SpecDigest == p.SpecDigest && held.StatusDigest == p.StatusDigest
			switch {
			case c.Op == client.Add && same:
				return fmt.Errorf("ADD of pod %s, which is held as it is; want nothing", p.UID)
			case c.Op == client.Add && ok && held.Source != p.Source:
				return fmt.Errorf("ADD of pod %s of %s, which is held of %s; want REMOVE before", p.UID, p.Source, held.Source)
			case c.Op != client.Add && (!ok || held.Source != p.Source):
				return fmt.Errorf("%v of pod %s of %s; the consumer holds %+v", c.Op, p.UID, p.Source, held)
			case c.Op == client.Reconcile && held.SpecDigest != p.SpecDigest:
				return fmt.Errorf("RECONCILE of pod %s, whose spec changed; want UPDATE", p.UID)
			case c.Op == client.Remove:
				delete(s.pods, p.UID)
				continue
			}
			p.Object = nil
			s.pods[p.UID] = p
		}
	}
	s.options.ResumeAfter = e.Cursor
	if _, ok := s.pods["end"]; ok {
		return errEnd
	}
	return nil
}

// awaitEnd waits for the consumer and compares.
func (s *struggle) awaitEnd() {
	select {
	case <-s.ended:
	case <-time.After(deadline):
		s.t.Fatalf("the consumer isn't at the end after %v", deadline)
	}
	st := s.daemon.hub.History().State()
	for _, p := range st.Pods {
		if held := s.pods[p.UID()]; held.Source != p.Source || held.SpecDigest != p.SpecDigest || held.StatusDigest != p.StatusDigest {
			s.t.Errorf("in the end the consumer holds %+v; want pod %s (%s of %s)", held, p, p.UID(), p.Source)
		}
		delete(s.pods, p.UID())
	}
	if len(s.pods) > 0 {
		s.t.Errorf("in the end the consumer still holds %v, which are gone", s.pods)
	}
}
