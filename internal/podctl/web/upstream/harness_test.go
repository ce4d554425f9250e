package upstream_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"github.com/podstream/podstream/internal/podctl/web/board"
	podwebv1 "github.com/podstream/podstream/internal/podctl/web/proto/podweb/v1"
	"github.com/podstream/podstream/internal/podctl/web/upstream"
	"github.com/podstream/podstream/internal/podctl/web/webtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fixture is an upstream with its board.
type fixture struct {
	t        *testing.T
	board    *board.Board
	upstream *upstream.Upstream
	stop     func()
}

// start runs an upstream until the test ends.
func start(t *testing.T, cfg upstream.Config) *fixture {
	t.Helper()
	f := &fixture{t: t, board: board.New(board.Config{
		Clock: clock.RealClock{},
		Unified: func(before, after *corev1.Pod, _ int) (string, error) {
			return fmt.Sprintf("--- a\n+++ b\n@@ -1 +1 @@\n-image: %s\n+image: %s\n", before.Spec.Containers[0].Image, after.Spec.Containers[0].Image), nil
		},
	})}
	cfg.Board, cfg.Clock = f.board, clock.RealClock{}
	if cfg.FirstPause == 0 {
		cfg.FirstPause = 5 * time.Millisecond
	}
	if cfg.Poll == 0 {
		cfg.Poll = 5 * time.Millisecond
	}
	f.upstream = upstream.New(cfg)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		f.upstream.Run(ctx)
	}()
	f.stop = func() {
		cancel()
		<-ended
	}
	t.Cleanup(f.stop)
	return f
}

// entries returns the timeline in short: "3 ADD file: web".
func (f *fixture) entries() []string {
	var out []string
	f.board.Timeline.Log.Each(func(_ uint64, e *board.Entry) bool {
		out = append(out, entryText(e.Revision))
		return true
	})
	return out
}

func entryText(r *podwebv1.Revision) string {
	parts := []string{fmt.Sprint(r.GetRevision())}
	if r.GetKind() != podwebv1.RevisionKind_REVISION_KIND_EXACT {
		parts = append(parts, strings.TrimPrefix(r.GetKind().String(), "REVISION_KIND_"))
	}
	if r.GetNewInstance() {
		parts = append(parts, "(new)")
	}
	for _, op := range r.GetOps() {
		text := op.GetOp() + " " + op.GetSource() + ":"
		for _, pod := range op.GetPods() {
			text += " " + pod.GetName().GetName()
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, " ")
}

// wantEntries waits until the timeline has exactly these entries.
func (f *fixture) wantEntries(want ...string) {
	f.t.Helper()
	var got []string
	defer func() {
		if f.t.Failed() {
			f.t.Logf("the timeline is\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}()
	webtest.Await(f.t, "the timeline", nil, func() bool {
		got = f.entries()
		return strings.Join(got, "\n") == strings.Join(want, "\n")
	})
}

// wantLink waits until a link has a state, and returns its text.
func wantLink(t *testing.T, link *board.Link, want string) string {
	t.Helper()
	changed := make(chan struct{}, 1)
	defer link.Follow(changed)()
	var text string
	webtest.Await(t, "the link to be "+want, changed, func() bool {
		c, _ := link.Get()
		text = c.GetText()
		return c.GetState().String() == "CONNECTION_STATE_"+want
	})
	return text
}
