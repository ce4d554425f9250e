package podexecd

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// Until the sync loop runs, the goroutine that waits for the runtime answers; after that only the sync loop does.
func TestProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProgress()
		alive := func() error {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			return p.alive(ctx)
		}
		if err := alive(); !errors.Is(err, errNoProgress) {
			t.Errorf("without any goroutine: %v; want %v", err, errNoProgress)
		}
		waiting := make(chan struct{})
		go func() {
			defer close(waiting)
			p.await(t.Context())
		}()
		for range 3 {
			if err := alive(); err != nil {
				t.Errorf("while the runtime is awaited: %v", err)
			}
		}
		close(p.looping)
		<-waiting
		if err := alive(); !errors.Is(err, errNoProgress) {
			t.Errorf("while the sync loop hangs: %v; want %v", err, errNoProgress)
		}
	})
}

func TestMissingRuntime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProgress()
		if got := p.missingRuntime(); got != "runtime: no answer yet" {
			t.Errorf("at the start: %q", got)
		}
		began := time.Now().Format(time.RFC3339)
		p.runtime(errors.New("refused"))
		time.Sleep(time.Minute)
		p.runtime(errors.New("timed out"))
		if got, want := p.missingRuntime(), "runtime: unreachable since "+began+" (timed out)"; got != want {
			t.Errorf("after two failures: %q; want %q", got, want)
		}
		p.runtime(nil)
		if got := p.missingRuntime(); got != "" {
			t.Errorf("once it answers: %q; want nothing", got)
		}
		p.runtime(errors.New("refused"))
		if got := p.missingRuntime(); strings.Contains(got, began) || !strings.Contains(got, "unreachable since") {
			t.Errorf("after a second outage: %q; want its own time", got)
		}
	})
}
