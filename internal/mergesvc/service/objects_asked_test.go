package service_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/podstream/podstream/internal/manifest"
)

// asked is an object source under a test's control.
type asked struct {
	t      *testing.T
	wanted <-chan []manifest.ObjectKey
	out    func(manifest.ObjectKey, *manifest.Object)
}

// follow makes the node follow the objects of a source until the test ends.
func (n *objectNode) follow(source string) *asked {
	a, ready := &asked{t: n.t}, make(chan struct{})
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		_ = n.objects.Follow(ctx, source, func(
			ctx context.Context, wanted <-chan []manifest.ObjectKey, out func(manifest.ObjectKey, *manifest.Object),
		) error {
			a.wanted, a.out = wanted, out
			close(ready)
			<-ctx.Done()
			return nil
		})
	})
	n.t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	<-ready
	return a
}

// want waits until exactly these objects are requested from the source.
func (a *asked) want(refs ...string) {
	a.t.Helper()
	want := ""
	for _, ref := range refs {
		want += keyOf(ref).String() + " "
	}
	timeout := time.After(deadline)
	for {
		select {
		case keys := <-a.wanted:
			got := ""
			for _, key := range keys {
				got += key.String() + " "
			}
			if got == want {
				return
			}
		case <-timeout:
			a.t.Fatalf("the source isn't asked for %q", want)
		}
	}
}

func (a *asked) report(ref, value string) { a.out(keyOf(ref), object(ref, value)) }

func (a *asked) miss(ref string) { a.out(keyOf(ref), nil) }
