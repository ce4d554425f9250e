package podconfigd

import (
	"errors"
	"io/fs"
	"log/slog"
	"strings"
	"testing"
	"time"
)

// TestSupervisorRefuses: of a plan with one source that can't be made as it is configured, nothing comes into force.
func TestSupervisorRefuses(t *testing.T) {
	st := newStage(t)
	st.mustStart("a-1", "b-1")
	first := st.plan.Load()
	st.refuse["c"] = errors.New("source c: refused")
	if err := st.change(t.Context(), planOf("a-2", "c-1")); err == nil || !strings.Contains(err.Error(), "source c: refused") {
		t.Errorf("a source that can't be made gives %v; want an error that names it", err)
	}
	st.expect()
	if st.plan.Load() != first {
		t.Error("another plan is in force")
	}
	st.mustChange("b-1")
	st.expect("end a-1", "configure b extra", "drop a")
}

// TestSupervisorLacksFile: a source that can't be made because of a missing file is configured with its reason,
// doesn't delay others, is logged once, and is retried by each change.
func TestSupervisorLacksFile(t *testing.T) {
	st := newStage(t)
	log := newLog()
	st.log = slog.New(slog.NewTextHandler(log, nil))
	st.refuse["b"] = &fs.PathError{Op: "open", Path: "/ca", Err: fs.ErrNotExist}
	plan := planOf("a-1", "b-1", "c-1")
	plan.Sources[2].Problem = errors.New("f:3: open /kubeconfig")
	if err := st.start(t.Context(), plan); err != nil {
		t.Fatal(err)
	}
	const missing = "open /ca: file does not exist"
	st.expect("start a-1, apply b " + missing + ", apply c f:3: open /kubeconfig")
	if !st.incomplete() {
		t.Error("nothing is to be tried again")
	}
	if err := st.change(t.Context(), plan); err != nil {
		t.Fatal(err)
	}
	st.expect("apply b " + missing + ", apply c f:3: open /kubeconfig")
	for _, reported := range []string{missing, "f:3: open /kubeconfig"} {
		if n := strings.Count(log.String(), reported); n != 1 {
			t.Errorf("%q is logged %d times; want once:\n%s", reported, n, log)
		}
	}
	delete(st.refuse, "b")
	st.mustChange("a-1", "b-1", "c-1")
	st.expect("start b-1, start c-1")
	if st.incomplete() {
		t.Error("all sources run, and one of them is to be tried again")
	}
	// A file that is lost while the source runs changes nothing.
	plan = planOf("a-1", "b-1", "c-2")
	plan.Sources[2].Problem = errors.New("f:3: open /kubeconfig again")
	if err := st.change(t.Context(), plan); err != nil {
		t.Fatal(err)
	}
	st.expect()
	log.await(t, "open /kubeconfig again", 1)
}

// TestSupervisorFailure: a source of the start that ends without a set can't work, and the supervisor returns its
// error. Any other's end only shows in its state, and each change retries it.
func TestSupervisorFailure(t *testing.T) {
	st := newStage(t)
	st.mustStart("a-1", "b-1")
	st.of("a-1").fail <- errors.New("hopeless")
	<-st.wake
	if err := st.attend(); err == nil || err.Error() != "source a: hopeless" {
		t.Errorf("a source that ends without a word gives %v; want its error", err)
	}
	st.mustChange("b-1", "c-1")
	st.expect("configure b c extra a", "start c-1")
	for _, f := range []string{"b-1", "c-1"} {
		name := f[:1]
		if f == "b-1" {
			// It has worked once, though badly.
			st.of(f).give <- errors.New("away")
			st.expect("apply b away")
		}
		st.of(f).fail <- errors.New("hopeless")
		<-st.wake
		if err := st.attend(); err != nil {
			t.Errorf("the end of %s gives %v; want none", f, err)
		}
		st.expect("apply " + name + " source " + name + ": hopeless")
	}
	st.mustChange("b-1", "c-1")
	st.expect("start b-1, start c-1")
}

// TestSupervisorStaleFailure: the end of a source that another has taken the place of meanwhile is of no interest.
func TestSupervisorStaleFailure(t *testing.T) {
	st := newStage(t)
	st.mustStart("a-1", "b-1")
	st.of("a-1").fail <- errors.New("hopeless")
	<-st.running["a"].ended
	st.mustChange("a-2", "b-1")
	st.expect("start a-2")
	<-st.wake
	if err := st.attend(); err != nil {
		t.Errorf("the end of the former reader gives %v; want none", err)
	}
	st.expect()
}

// TestSupervisorHanging: a source that doesn't end delays the change only for a while, and its sets are ignored.
func TestSupervisorHanging(t *testing.T) {
	st := newStage(t)
	log := newLog()
	st.log, st.endPatience = slog.New(slog.NewTextHandler(log, nil)), time.Millisecond
	st.mustStart("a-1", "b-1")
	hang := make(chan struct{})
	st.of("a-1").hang = hang
	st.mustChange("a-2", "b-1")
	st.expect("end a-1, start a-2")
	close(hang)
	// There is no set of its between these.
	st.expect("late a-1")
	if !strings.Contains(log.String(), "source doesn't end") || !strings.Contains(log.String(), "source=a ") {
		t.Errorf("the source that hangs isn't told:\n%s", log)
	}
}
