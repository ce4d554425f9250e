package podbench

import (
	"context"
	"fmt"
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// crashing returns a pod whose process runs for a moment and fails. Its first restart has no backoff.
func crashing(name string) pod {
	p := pod{name: name}
	p.args = then(appendLine(p.began()), []string{"sleep", "500ms"}, appendLine(p.ended()), []string{"exit", "1"})
	return p
}

// benchmarkRestart measures from the last line of a failing process to the first line of the next one. The
// floor starts the next one when the runtime's event reports the exit.
func (p *pair) benchmarkRestart(b *testing.B) {
	exits := p.floor.exits(b)
	floor, product := &series{name: "event and CRI calls"}, &series{name: "both daemons"}
	for i := range restarts {
		crash := crashing(fmt.Sprintf("restart%d", i))
		inTurn(i, func() { floor.add(p.floor.restart(b, crash, exits)) }, func() { product.add(p.product.restart(b, crash)) })
	}
	report(b, product, floor)
}

// gap returns the time between two processes of the pod, the first of which was started by the caller.
func gap(b *testing.B, pipe *pipe, crash pod) time.Duration {
	ended := pipe.await(b, crash.ended())
	return pipe.await(b, crash.began()).Sub(ended)
}

// restart starts the pod and waits for its second process.
func (p *product) restart(b *testing.B, crash pod) time.Duration {
	b.Helper()
	p.start(b, crash)
	defer p.remove(b, crash)
	return gap(b, p.pipe, crash)
}

// restart starts the pod, and its second container when the first has failed.
func (f *floor) restart(b *testing.B, crash pod, exits <-chan string) time.Duration {
	b.Helper()
	f.start(b, 1, crash)
	defer f.removeAll(b)
	next := f.order(b, crash)
	next.container.Metadata.Attempt = 1
	next.container.LogPath = "main/1.log"
	first := f.running[0]
	late := time.After(patience)
	for exited := ""; exited != first.container; {
		select {
		case exited = <-exits:
		case <-late:
			b.Fatal("the runtime sends no event for the exit")
		}
	}
	if _, err := f.startContainer(b.Context(), first.sandbox, next); err != nil {
		b.Fatal(err)
	}
	return gap(b, f.pipe, crash)
}

// exits returns the IDs of the containers and sandboxes that end.
func (f *floor) exits(b *testing.B) <-chan string {
	b.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	stream, err := f.cri.GetContainerEvents(ctx, &runtimeapi.GetEventsRequest{})
	if err != nil {
		b.Fatal(err)
	}
	exits, done := make(chan string, 1000), make(chan struct{})
	go func() {
		defer close(done)
		for {
			e, err := stream.Recv()
			if err != nil {
				return
			}
			if e.GetContainerEventType() == runtimeapi.ContainerEventType_CONTAINER_STOPPED_EVENT {
				exits <- e.GetContainerId()
			}
		}
	}()
	b.Cleanup(func() { cancel(); <-done })
	return exits
}
