package client_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/podstream/podstream/client"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// of is a message of another instance whose cursor has a position of the source file, in the cluster c. An empty version is no
// position: an older podconfigd.
func of(instance, version string, m *podconfigv1.WatchPodUpdatesResponse) *podconfigv1.WatchPodUpdatesResponse {
	if m = proto.CloneOf(m); m.GetCursor() == nil {
		return m
	}
	m.Cursor.InstanceId = instance
	if version != "" {
		m.Cursor.Positions = []*podconfigv1.SourcePosition{{Source: "file", Cluster: "c", ResourceVersion: version}}
	}
	return m
}

// wantPosition checks that the client resumes after a revision, with that position.
func wantPosition(t *testing.T, c *podconfigv1.Cursor, instance, version string) {
	t.Helper()
	if c.GetInstanceId() != instance || len(c.GetPositions()) != 1 || c.GetPositions()[0].GetResourceVersion() != version {
		t.Errorf("the cursor is %v; want one of instance %s, at version %s", c, instance, version)
	}
}

// TestG11OldPodconfigd: after a podconfigd with positions come one without, one that is behind, and one whose positions aren't
// valid. Nothing of them is delivered: no pod is removed, and none comes back. The consumer goes on where it was.
func TestG11OldPodconfigd(t *testing.T) {
	s := newScript(
		func(s serverStream) error {
			send(s, of("new", "20", update(1, client.Add, "one")))
			send(s, of("new", "20", synced(1)))
			return broken
		},
		func(s serverStream) error {
			send(s, of("old", "", update(9, client.Remove, "one")))
			send(s, of("old", "", synced(9)))
			return broken
		},
		func(s serverStream) error {
			send(s, of("old", "", update(0, podconfigv1.PodOperation_POD_OPERATION_SET, "deleted")))
			send(s, of("old", "", synced(9)))
			return broken
		},
		func(s serverStream) error {
			send(s, of("behind", "19", update(9, client.Add, "deleted")))
			return broken
		},
		func(s serverStream) error {
			send(s, of("faulty", "-1", update(9, client.Remove, "one")))
			return broken
		},
		func(s serverStream) error {
			send(s, of("other", "21", update(9, client.Add, "two")))
			send(s, of("other", "21", synced(9)))
			return broken
		},
	)
	p := testPlace(t)
	up(t, p, s)
	breaks := make(chan error, 10)
	w := watch(t, p, client.Config{OnBreak: func(err error) { breaks <- err }}, client.WatchOptions{})
	w.want("ADD file: one")
	w.want("synced")
	e := w.want("ADD file: two")
	wantPosition(t, e.Cursor, "other", "21")
	w.want("synced")
	<-s.requests
	for range 5 {
		req := <-s.requests
		wantRequest(t, req, 1, "one")
		wantPosition(t, req.GetResumeAfter(), "new", "20")
	}
	var got []string
	for range 5 {
		got = append(got, (<-breaks).Error())
	}
	for i, want := range []string{"broken", "older version", "older version", "resource version 19", "invalid position"} {
		if !strings.Contains(got[i], want) {
			t.Errorf("stream %d ends with %q; want %q", i, got[i], want)
		}
	}
}

// TestG11Downgrade: an older version of the same podconfigd sends no positions. The consumer follows it, and keeps its own.
func TestG11Downgrade(t *testing.T) {
	s := newScript(
		func(s serverStream) error {
			send(s, of("life", "20", update(1, client.Add, "one")))
			send(s, of("life", "20", synced(1)))
			return broken
		},
		func(s serverStream) error {
			send(s, of("life", "", update(2, client.Add, "two")))
			send(s, of("life", "", synced(2)))
			return broken
		},
	)
	p := testPlace(t)
	up(t, p, s)
	w := watch(t, p, client.Config{}, client.WatchOptions{})
	w.want("ADD file: one")
	w.want("synced")
	e := w.want("ADD file: two")
	if wantPosition(t, e.Cursor, "life", "20"); e.Cursor.GetRevision() != 2 {
		t.Errorf("the event's cursor is %v; want revision 2", e.Cursor)
	}
	w.want("synced")
	<-s.requests
	<-s.requests
	wantPosition(t, (<-s.requests).GetResumeAfter(), "life", "20")
}

// TestG11GoesOn: the preferred podconfigd is behind the consumer, which goes on to another one. When that one's stream breaks,
// the consumer returns to it, and not to the one that is behind.
func TestG11GoesOn(t *testing.T) {
	a, b := testPlace(t), testPlace(t)
	behind := newScript(func(s serverStream) error {
		send(s, of("behind", "19", update(5, client.Remove, "one")))
		<-s.Context().Done()
		return nil
	})
	good := newScript(
		func(s serverStream) error {
			send(s, of("good", "20", synced(7)))
			return broken
		},
		func(s serverStream) error {
			send(s, of("good", "30", update(8, client.Remove, "one")))
			<-s.Context().Done()
			return nil
		},
	)
	up(t, a, behind)
	up(t, b, good)
	start := of("start", "20", synced(3)).GetCursor()
	w := watch(t, place{endpoint: a.endpoint + "," + b.endpoint}, client.Config{Order: client.Listed}, client.WatchOptions{
		ResumeAfter: start, Known: []client.Pod{{UID: "one", Source: "file", Namespace: "default", Name: "one", SpecDigest: "s"}},
	})
	w.want("synced")
	wantPosition(t, w.want("REMOVE file: one").Cursor, "good", "30")
	if n := len(behind.requests); n != 1 {
		t.Errorf("the podconfigd that is behind got %d subscriptions; want 1", n)
	}
	for _, s := range []*script{behind, good} {
		wantPosition(t, (<-s.requests).GetResumeAfter(), "start", "20")
	}
}

// laggard is a podconfigd that begins well, repeats the consumer's position, and then goes back.
type laggard struct {
	*script
	subscribed int
}

func (l *laggard) WatchPodUpdates(_ *podconfigv1.WatchPodUpdatesRequest, s serverStream) error {
	l.subscribed++
	send(s, of("lag", "20", synced(1)))
	send(s, of("lag", "1"+strings.Repeat("0", l.subscribed%2), update(2, client.Remove, "one")))
	<-s.Context().Done()
	return nil
}

// TestG11Pace: a podconfigd that stays behind, though its streams begin well, is asked less and less often, and an error each
// minute says what to do. The test runs in a bubble with its own clock.
func TestG11Pace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &laggard{script: newScript()}
		var log bytes.Buffer
		c, stop := bubbleWith(t, l, client.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		ctx, cancel := context.WithTimeout(t.Context(), 150*time.Second)
		defer cancel()
		err := c.Watch(ctx, client.WatchOptions{ResumeAfter: of("start", "20", synced(1)).GetCursor()}, func(_ context.Context, e client.Event) error {
			if len(e.Ops) > 0 {
				t.Errorf("the consumer gets %s", words(e))
			}
			return nil
		})
		stop()
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Watch ends with %v", err)
		}
		if l.subscribed > 85 {
			t.Errorf("in 150 s it subscribed %d times; want pauses of 2 s", l.subscribed)
		}
		if n := strings.Count(log.String(), "level=ERROR"); n != 3 || !strings.Contains(log.String(), "source=file") ||
			!strings.Contains(log.String(), "reaches the API server") {
			t.Errorf("it is logged %d times; want 3, with the source and what to do:\n%s", n, &log)
		}
	})
}

// TestHeldReason: the consumer is told that a source is held, and when that ends, though its readiness doesn't change.
func TestHeldReason(t *testing.T) {
	hold := func(m *podconfigv1.WatchPodUpdatesResponse, reason string) *podconfigv1.WatchPodUpdatesResponse {
		for _, s := range append(m.GetSynced().GetSources(), m.GetHeartbeat().GetSources()...) {
			s.HeldReason = reason
		}
		return m
	}
	s := newScript(func(s serverStream) error {
		send(s, hold(synced(1), "behind"))
		send(s, hold(heartbeat(0, false), "still behind"))
		send(s, heartbeat(0, false))
		send(s, hold(heartbeat(0, false), strings.Repeat("é", 1000)))
		send(s, heartbeat(0, true))
		<-s.Context().Done()
		return nil
	})
	p := testPlace(t)
	up(t, p, s)
	w := watch(t, p, client.Config{}, client.WatchOptions{})
	for i, want := range []client.Source{{Name: "file", HeldReason: "behind"}, {Name: "file"}, {Name: "file", HeldReason: strings.Repeat("é", 256) + "…"}, {Name: "file", Ready: true}} {
		text := "synced"
		if i > 0 {
			text = ""
		}
		if e := w.want(text); len(e.Sources) != 1 || e.Sources[0] != want {
			t.Errorf("event %d has the sources %+v; want %+v", i, e.Sources, want)
		}
	}
}
