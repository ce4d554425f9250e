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

// stage is a supervisor whose sources and hubs only record their calls.
type stage struct {
	*supervisor
	t *testing.T
	// lines gets a line for all that happens.
	lines chan string
	// refuse are the errors of sources that can't be built, by name.
	refuse map[string]error

	mu sync.Mutex
	// made are the sources by fingerprint.
	made map[string]*fakeSource
}

func newStage(t *testing.T) *stage {
	st := &stage{t: t, lines: make(chan string, 100), refuse: map[string]error{}, made: map[string]*fakeSource{}}
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
		drop:   func(source string) { st.lines <- "drop " + source },
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
	if err := st.refuse[entry.Name]; err != nil {
		return nil, err
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	f := &fakeSource{stage: st, entry: entry, fail: make(chan error), give: make(chan error)}
	st.made[entry.Fingerprint] = f
	return f, nil
}

// of is the source of a fingerprint.
func (st *stage) of(fingerprint string) *fakeSource {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.made[fingerprint]
}

// fakeSource is a source with a path, named by the fingerprint.
type fakeSource struct {
	stage *stage
	entry sourceconfig.Source
	// fail ends it with an error, and give has it hand over a set with an error or nil.
	fail, give chan error
	// hang, if there is one, keeps it from ending until it is closed; then it hands over one more set.
	hang chan struct{}
}

func (f *fakeSource) Path() []*podconfigv1.RelayHop {
	return []*podconfigv1.RelayHop{{Id: f.entry.Fingerprint}, {Id: "far"}}
}

func (f *fakeSource) Run(ctx context.Context, out func(manifest.Set)) error {
	f.stage.lines <- "start " + f.entry.Fingerprint
	for {
		select {
		case <-ctx.Done():
			f.stage.lines <- "end " + f.entry.Fingerprint
			if f.hang != nil {
				<-f.hang
				out(manifest.Set{Source: f.entry.Name, Err: errors.New("late")})
				f.stage.lines <- "late " + f.entry.Fingerprint
			}
			return nil
		case err := <-f.give:
			out(manifest.Set{Source: f.entry.Name, Err: err})
		case err := <-f.fail:
			return err
		}
	}
}

// planOf makes a plan of fingerprints: the name is the part before the dash.
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

// gives has a source hand over a good set, and the supervisor attend to it.
func (st *stage) gives(fingerprint string) {
	st.t.Helper()
	st.of(fingerprint).give <- nil
	name, _, _ := strings.Cut(fingerprint, "-")
	if line := <-st.lines; line != "apply "+name+" <nil>" {
		st.t.Fatalf("there happened %q; want a set of %s", line, name)
	}
	<-st.wake
	if err := st.attend(); err != nil {
		st.t.Fatal(err)
	}
}

func (st *stage) mustStart(fingerprints ...string) {
	st.t.Helper()
	var lines []string
	for _, f := range fingerprints {
		lines = append(lines, "start "+f)
	}
	if err := st.start(st.t.Context(), planOf(fingerprints...)); err != nil {
		st.t.Fatal(err)
	}
	st.expect(strings.Join(lines, ", "))
}

// TestSupervisorChange: a removed source has ended before the Hub is configured, an added one starts after, and an
// unchanged one isn't touched.
func TestSupervisorChange(t *testing.T) {
	st := newStage(t)
	st.mustStart("a-1", "b-1", "c-1")
	st.mustChange("a-1", "b-2")
	st.expect("end b-1, end c-1", "configure a b extra", "drop c", "start b-2")
	st.mustChange("d-1", "a-1", "b-2")
	st.expect("configure d a b extra", "start d-1")
	st.mustChange("a-1", "b-2", "d-1")
	st.expect("configure a b d extra")
	st.mustChange()
	st.expect("end a-1, end b-2, end d-1", "configure extra", "drop a, drop b, drop d")
}

// TestSupervisorPath: the own hop, then those of all sources, each once.
func TestSupervisorPath(t *testing.T) {
	st := newStage(t)
	st.mustStart("a-1", "b-1")
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
