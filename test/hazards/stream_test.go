package hazards

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/podstream/podstream/client/stream"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// viewer is the consumer whose ops the commands show. It resumes when podconfigd is started again.
type viewer struct {
	t   testing.TB
	api podconfigv1.PodConfigServiceClient
	// names belongs to the scenario. Only the scenario's goroutine uses it.
	names *names
	held  *stream.Held
	// end ends the open stream, and waits for its goroutine. It is nil if there is none.
	end func()

	mu sync.Mutex
	// lines are the revisions that no command has shown yet.
	lines []string
	// revision is the stream's last revision.
	revision uint64
	synced   bool
	err      error
	changed  chan struct{}
}

func newViewer(t testing.TB, api podconfigv1.PodConfigServiceClient, n *names) *viewer {
	v := &viewer{t: t, api: api, names: n, held: stream.NewHeld(nil, nil), changed: make(chan struct{}, 1)}
	t.Cleanup(v.close)
	return v
}

func (v *viewer) open() {
	v.close()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	v.err, v.synced = nil, false
	go func() {
		defer close(done)
		err := v.follow(ctx)
		if ctx.Err() == nil {
			v.note(func() { v.err = err })
		}
	}()
	v.end = func() { cancel(); <-done }
	if err := v.await(func() bool { return v.synced }); err != nil {
		v.t.Fatalf("the initial state never came: %v", err)
	}
}

func (v *viewer) close() {
	if v.end != nil {
		v.end()
		v.end = nil
	}
}

// follow reads one stream until it ends.
func (v *viewer) follow(ctx context.Context) error {
	request := v.held.Begin(&podconfigv1.WatchPodUpdatesRequest{
		Consumer: "hazards", Format: podconfigv1.PodFormat_POD_FORMAT_PROTOBUF, HeartbeatInterval: durationpb.New(time.Second),
	})
	s, err := stream.Open(ctx, stream.Config{API: v.api, Request: request})
	if err != nil {
		return err
	}
	defer s.Close()
	for {
		r, err := s.Next()
		if err != nil {
			return err
		}
		line, err := revisionLine(r)
		if err != nil {
			return err
		}
		v.held.Apply(v.held.Interpret(r))
		v.note(func() {
			if line != "" {
				v.lines = append(v.lines, line)
			}
			v.synced = v.synced || r.Synced != nil
			v.revision = v.held.Cursor().GetRevision()
		})
	}
}

func (v *viewer) note(f func()) {
	v.mu.Lock()
	f()
	v.mu.Unlock()
	select {
	case v.changed <- struct{}{}:
	default:
	}
}

// await waits until ready, which is called with mu held, returns true, or until patience has passed.
func (v *viewer) await(ready func() bool) error {
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	for {
		v.mu.Lock()
		ok, err := ready(), v.err
		v.mu.Unlock()
		switch {
		case ok:
			return nil
		case err != nil:
			return fmt.Errorf("the stream broke: %w", err)
		}
		select {
		case <-v.changed:
		case <-deadline.C:
			return errors.New("nothing more came")
		}
	}
}

// take removes the next lines: the expected number, or all of them if one differs.
func (v *viewer) take(want []string) []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	n := min(len(want), len(v.lines))
	if v.differs(want) {
		n = len(v.lines)
	}
	taken := v.lines[:n]
	v.lines = v.lines[n:]
	return taken
}

// differs reports whether the received lines can no longer match the expected ones. Its caller is the
// scenario's goroutine, and holds mu.
func (v *viewer) differs(want []string) bool {
	n := min(len(want), len(v.lines))
	shown, _ := v.names.show(unlines(v.lines[:n]))
	return !matches(unlines(want[:n]), shown)
}

func ops(s *scenario, d *datadriven.TestData) string {
	want := lines(d.Expected)
	if d.Rewrite {
		s.settle()
		return unlines(s.viewer.take(make([]string, len(s.viewer.lines))))
	}
	err := s.viewer.await(func() bool { return len(s.viewer.lines) >= len(want) || s.viewer.differs(want) })
	got := unlines(s.viewer.take(want))
	if err != nil {
		got += err.Error() + "\n"
	}
	return got
}

func quiet(s *scenario, _ *datadriven.TestData) string {
	s.settle()
	s.viewer.mu.Lock()
	n := len(s.viewer.lines)
	s.viewer.mu.Unlock()
	return unlines(s.viewer.take(make([]string, n)))
}

// settle waits until every source has been read in full, the result is published, and the viewer has received it.
func (s *scenario) settle() {
	s.t.Helper()
	// A reading that is under way may have started too early. The second one from now on can't have.
	for range 2 {
		resp, err := s.config.ListSources(s.t.Context(), &podconfigv1.ListSourcesRequest{})
		s.check(err)
		since := map[string]time.Time{}
		for _, src := range resp.GetSources() {
			since[src.GetName()] = src.GetLastReadTime().AsTime()
		}
		s.awaitReadings(since)
	}
	list, err := s.config.ListPods(s.t.Context(), &podconfigv1.ListPodsRequest{PageSize: 1, Format: podconfigv1.PodFormat_POD_FORMAT_REFERENCE})
	s.check(err)
	s.check(s.viewer.await(func() bool { return s.viewer.revision >= list.GetRevision() }))
}

func fresh(s *scenario, d *datadriven.TestData) string {
	request := &podconfigv1.WatchPodUpdatesRequest{Consumer: "fresh", Mode: s.mode(d), Format: podconfigv1.PodFormat_POD_FORMAT_PROTOBUF}
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	st, err := stream.Open(ctx, stream.Config{API: s.config, Request: request})
	s.check(err)
	defer st.Close()
	var out []string
	for {
		r, err := st.Next()
		s.check(err)
		line, err := revisionLine(r)
		s.check(err)
		if line != "" {
			out = append(out, line)
		}
		if r.Synced != nil {
			return unlines(out)
		}
	}
}

func unlines(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return strings.Join(list, "\n") + "\n"
}
