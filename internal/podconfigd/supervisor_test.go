package podconfigd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/internal/mergesvc/merge"
	"github.com/podstream/podstream/internal/sourceconfig"
	"github.com/podstream/podstream/internal/sources"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// stage is a supervisor whose sources and hubs only write down what happens.
type stage struct {
	*supervisor
	t *testing.T
	// lines gets a line for all that happens.
	lines chan string
	// refuse is the name of a source that can't be built.
	refuse string

	mu sync.Mutex
	// fail has a channel for each fingerprint, which ends its reader with what comes.
	fail map[string]chan error
}

func newStage(t *testing.T) *stage {
	st := &stage{t: t, lines: make(chan string, 100), fail: map[string]chan error{}}
	st.supervisor = &supervisor{
		build: st.build, log: discard(), configured: (&Options{extra: []merge.Source{{Name: "extra"}}}).mergeSources,
		configure: func(list []merge.Source) {
			var names []string
			for _, s := range list {
				names = append(names, s.Name)
			}
			st.lines <- "configure " + strings.Join(names, " ")
		},
		apply:  func(set manifest.Set) { st.lines <- fmt.Sprintf("apply %s %v", set.Source, set.Err) },
		follow: func(context.Context, string, sources.ObjectSource) error { return nil },
		forget: func(source string) { st.lines <- "forget " + source },
	}
	t.Cleanup(func() {
		st.stop()
		close(st.lines)
		for range st.lines { // What ended is of no interest any more.
		}
	})
	return st
}

func (st *stage) build(entry sourceconfig.Source) (sources.Source, error) {
	if entry.Name == st.refuse {
		return nil, errors.New("source c: refused")
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	fail := make(chan error)
	st.fail[entry.Fingerprint] = fail
	return &fakeSource{stage: st, entry: entry, fail: fail}, nil
}

// fakeSource is a source with a path, named by the fingerprint.
type fakeSource struct {
	stage *stage
	entry sourceconfig.Source
	fail  chan error
}

func (f *fakeSource) Path() []*podconfigv1.RelayHop {
	return []*podconfigv1.RelayHop{{Id: f.entry.Fingerprint}, {Id: "far"}}
}

func (f *fakeSource) Run(ctx context.Context, _ func(manifest.Set)) error {
	f.stage.lines <- "start " + f.entry.Fingerprint
	select {
	case <-ctx.Done():
		f.stage.lines <- "end " + f.entry.Fingerprint
		return nil
	case err := <-f.fail:
		return err
	}
}

// planOf makes a plan of fingerprints: the name is what stands before the dash.
func planOf(fingerprints ...string) *sourceconfig.Plan {
	plan := &sourceconfig.Plan{}
	for _, f := range fingerprints {
		name, _, _ := strings.Cut(f, "-")
		plan.Sources = append(plan.Sources, sourceconfig.Source{Name: name, Fingerprint: f})
	}
	return plan
}

// expect awaits these lines, those of one string in any order.
func (st *stage) expect(groups ...string) {
	st.t.Helper()
	for _, group := range groups {
		want := strings.Split(group, ", ")
		var got []string
		for range want {
			got = append(got, <-st.lines)
		}
		slices.Sort(want)
		slices.Sort(got)
		if !slices.Equal(got, want) {
			st.t.Fatalf("there happened %q; want %q", got, want)
		}
	}
	select {
	case line := <-st.lines:
		st.t.Fatalf("there happened %q too", line)
	default:
	}
}

func (st *stage) mustChange(fingerprints ...string) {
	st.t.Helper()
	if err := st.change(st.t.Context(), planOf(fingerprints...)); err != nil {
		st.t.Fatal(err)
	}
}

// TestSupervisorChange: what goes has ended before the Hub is told, what comes starts after, and what is the same notices nothing.
func TestSupervisorChange(t *testing.T) {
	st := newStage(t)
	if err := st.start(t.Context(), planOf("a-1", "b-1", "c-1")); err != nil {
		t.Fatal(err)
	}
	st.expect("start a-1, start b-1, start c-1")
	st.mustChange("d-1", "a-1", "b-2")
	st.expect("end b-1, end c-1", "configure d a b extra", "forget c", "start d-1, start b-2")
	st.mustChange("a-1", "b-2", "d-1")
	st.expect("configure a b d extra")
	st.mustChange()
	st.expect("end a-1, end b-2, end d-1", "configure extra", "forget a, forget b, forget d")
}

// TestSupervisorRefuses: of a plan with one source that can't be made, nothing comes into force.
func TestSupervisorRefuses(t *testing.T) {
	st := newStage(t)
	first := planOf("a-1", "b-1")
	if err := st.start(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	st.expect("start a-1, start b-1")
	st.refuse = "c"
	if err := st.change(t.Context(), planOf("a-2", "c-1")); err == nil || !strings.Contains(err.Error(), "source c: refused") {
		t.Errorf("a source that can't be made gives %v; want an error that names it", err)
	}
	st.expect()
	if st.plan.Load() != first {
		t.Error("another plan is in force")
	}
	st.mustChange("b-1")
	st.expect("end a-1", "configure b extra", "forget a")
}

// TestSupervisorFailure: at the start a source that can't work is told to whoever runs the supervisor; later it is only seen in the
// source's state, and each reload tries it anew.
func TestSupervisorFailure(t *testing.T) {
	st := newStage(t)
	if err := st.start(t.Context(), planOf("a-1", "b-1")); err != nil {
		t.Fatal(err)
	}
	st.expect("start a-1, start b-1")
	st.fail["a-1"] <- errors.New("hopeless")
	if err := <-st.failed; err == nil || err.Error() != "source a: hopeless" {
		t.Errorf("a source that ends gives %v; want its error", err)
	}
	st.mustChange("b-1", "c-1")
	st.expect("configure b c extra", "forget a", "start c-1")
	st.fail["c-1"] <- errors.New("hopeless")
	st.expect("apply c source c: hopeless")
	ended := st.running["c"].ended
	<-ended
	st.mustChange("b-1", "c-1")
	st.expect("configure b c extra", "start c-1")
}

// TestSupervisorPath: the own hop, then those of all sources, each once.
func TestSupervisorPath(t *testing.T) {
	st := newStage(t)
	if err := st.start(t.Context(), planOf("a-1", "b-1")); err != nil {
		t.Fatal(err)
	}
	st.expect("start a-1, start b-1")
	ids := func(hops []*podconfigv1.RelayHop) (out []string) {
		for _, h := range hops {
			out = append(out, h.GetId())
		}
		return out
	}
	if got := ids(st.path(&podconfigv1.RelayHop{Id: "me"})); !slices.Equal(got, []string{"me", "a-1", "far", "b-1"}) {
		t.Errorf("the path is %q", got)
	}
	if got := ids(st.sourcePath("b")); !slices.Equal(got, []string{"b-1", "far"}) {
		t.Errorf("the path of b is %q", got)
	}
	if got := st.sourcePath("extra"); got != nil {
		t.Errorf("the path of a source that isn't the supervisor's is %v; want none", got)
	}
}
