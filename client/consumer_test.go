package client_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/podstream/podstream/client"
)

// consumer runs one Watch and passes its events on.
type consumer struct {
	t      *testing.T
	events chan client.Event
	// ended has what Watch returned.
	ended  chan error
	cancel context.CancelFunc
	client *client.Client
}

func watch(t *testing.T, p place, cfg client.Config, opts client.WatchOptions) *consumer {
	t.Helper()
	cfg.Endpoint = p.endpoint
	c, err := client.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	w := &consumer{t: t, client: c}
	w.events, w.ended, w.cancel = collect(t, func(ctx context.Context, take func(context.Context, client.Event) error) error {
		return c.Watch(ctx, opts, take)
	})
	return w
}

// collect runs a watch until cancel is called or the test ends. It passes the events on, and then what the watch
// returned.
func collect[E any](
	t *testing.T, watch func(context.Context, func(context.Context, E) error) error,
) (events chan E, ended chan error, cancel context.CancelFunc) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	events, ended = make(chan E), make(chan error, 1)
	go func() {
		ended <- watch(ctx, func(ctx context.Context, e E) error {
			select {
			case events <- e:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
		close(ended)
	}()
	t.Cleanup(func() {
		cancel()
		for range ended {
		}
	})
	return events, ended, cancel
}

// want waits for the next event and compares its ops with lines like "ADD file: web db", or with the word "synced".
func (w *consumer) want(lines ...string) client.Event {
	w.t.Helper()
	select {
	case e := <-w.events:
		if got, want := words(e), strings.Join(lines, "\n"); got != want {
			w.t.Fatalf("the next event is\n%s\nwant\n%s", got, want)
		}
		return e
	case err := <-w.ended:
		w.t.Fatalf("Watch ended with %v; want the event %q", err, lines)
	case <-time.After(deadline):
		w.t.Fatalf("no event in %v; want %q", deadline, lines)
	}
	return client.Event{}
}

// wantEnd waits for the end of Watch.
func (w *consumer) wantEnd() error {
	w.t.Helper()
	select {
	case e := <-w.events:
		w.t.Fatalf("the next event is\n%s\nwant the end of Watch", words(e))
	case err := <-w.ended:
		return err
	case <-time.After(deadline):
		w.t.Fatalf("Watch goes on for %v; want its end", deadline)
	}
	return nil
}

func words(e client.Event) string {
	if e.Synced {
		return "synced"
	}
	var lines []string
	for _, c := range e.Ops {
		line := fmt.Sprintf("%s %s:", strings.TrimPrefix(c.Op.String(), "POD_OPERATION_"), c.Source)
		for _, p := range c.Pods {
			line += " " + string(p.UID)
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

// pods are all pods of the events, as WatchOptions take them.
func pods(events ...client.Event) []client.Pod {
	var out []client.Pod
	for _, e := range events {
		for _, c := range e.Ops {
			out = append(out, c.Pods...)
		}
	}
	return out
}
