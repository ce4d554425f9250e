package node

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
)

// marking is a call of Mark or Drop under way.
type marking struct {
	done chan struct{}
	err  error
}

func mark(t *testing.T, u *InUse, name v1.UniqueVolumeName) *marking {
	t.Helper()
	m := &marking{done: make(chan struct{})}
	go func() {
		defer close(m.done)
		m.err = u.Mark(t.Context(), name)
	}()
	synctest.Wait()
	return m
}

func drop(t *testing.T, u *InUse, name v1.UniqueVolumeName) *marking {
	t.Helper()
	m := &marking{done: make(chan struct{})}
	go func() {
		defer close(m.done)
		m.err = u.Drop(t.Context(), name)
	}()
	synctest.Wait()
	return m
}

func (m *marking) ended() bool {
	select {
	case <-m.done:
		return m.err == nil
	default:
		return false
	}
}

// TestVolumesInUse: a volume counts as in use once the API server lists it, and not while the volumes of before the restart
// aren't known. The status keeps its list until then.
func TestVolumesInUse(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.cfg.InUse = NewInUse()
		w.run(t)
		w.api.change(func(n *v1.Node) { n.Status.VolumesInUse = []v1.UniqueVolumeName{"old", "left"} })
		pass(time.Minute)
		a := mark(t, w.cfg.InUse, "a")
		pass(time.Minute)
		if got := w.api.now().Status.VolumesInUse; !slices.Equal(got, []v1.UniqueVolumeName{"old", "left"}) || a.ended() {
			t.Fatalf("before the volumes are known: %v, marked %v", got, a.ended())
		}
		w.cfg.InUse.Restore("old")
		pass(floor)
		if got := w.api.now().Status.VolumesInUse; !slices.Equal(got, []v1.UniqueVolumeName{"a", "old"}) || !a.ended() {
			t.Fatalf("after it: %v, marked %v", got, a.ended())
		}
		w.api.goAway(true)
		b := mark(t, w.cfg.InUse, "b")
		pass(time.Hour)
		if b.ended() || !mark(t, w.cfg.InUse, "a").ended() {
			t.Fatal("without the API server b is confirmed, or a isn't")
		}
		w.api.goAway(false)
		pass(lastWatchBackoff)
		if !b.ended() {
			t.Fatal("b isn't confirmed after the API server is back")
		}
		for _, name := range []v1.UniqueVolumeName{"old", "a", "b"} {
			if err := w.cfg.InUse.Drop(t.Context(), name); err != nil || slices.Contains(w.api.now().Status.VolumesInUse, name) {
				t.Errorf("%s: %v, but the API server has %v", name, err, w.api.now().Status.VolumesInUse)
			}
		}
		if got := w.api.now().Status.VolumesInUse; len(got) > 0 {
			t.Errorf("after all are dropped: %v", got)
		}
	})
}

// TestVolumesInUseUnknown: while some volumes of before the restart aren't known, a name that the status has stays until it
// is dropped, also over a new Node of the same name.
func TestVolumesInUseUnknown(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.cfg.InUse = NewInUse()
		w.run(t)
		w.api.change(func(n *v1.Node) { n.Status.VolumesInUse = []v1.UniqueVolumeName{"dropped", "later", "left", "old"} })
		pass(time.Minute)
		w.cfg.InUse.RestoreSome("old", "lost")
		d := drop(t, w.cfg.InUse, "dropped")
		m := mark(t, w.cfg.InUse, "new")
		pass(floor)
		want := []v1.UniqueVolumeName{"later", "left", "lost", "new", "old"}
		if got := w.api.now().Status.VolumesInUse; !slices.Equal(got, want) || !d.ended() || !m.ended() {
			t.Fatalf("in use: %v; want %v; dropped %v, marked %v", got, want, d.ended(), m.ended())
		}
		if d := drop(t, w.cfg.InUse, "later"); !d.ended() {
			pass(floor)
		}
		w.api.remove()
		pass(time.Minute)
		want = []v1.UniqueVolumeName{"left", "lost", "new", "old"}
		if got := w.api.now().Status.VolumesInUse; !slices.Equal(got, want) {
			t.Errorf("after a drop and with a new Node: %v; want %v", got, want)
		}
	})
}

// TestVolumesInUseEnds: the wait ends with the caller's context, and the volume stays marked.
func TestVolumesInUseEnds(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.cfg.InUse = NewInUse()
		w.cfg.InUse.Restore()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := w.cfg.InUse.Mark(ctx, "a"); err == nil || !strings.Contains(err.Error(), "volumesInUse") {
			t.Errorf("without a Node: %v", err)
		}
		w.run(t)
		pass(floor)
		if got := w.api.now().Status.VolumesInUse; !slices.Equal(got, []v1.UniqueVolumeName{"a"}) {
			t.Errorf("the volumes in use are %v", got)
		}
	})
}

// TestVolumeMarkedDuringPost: a post that removes a volume is under way when the volume is marked again. It isn't confirmed by
// the list of before that post.
func TestVolumeMarkedDuringPost(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.cfg.InUse = NewInUse()
		w.cfg.InUse.Restore()
		w.run(t)
		if m := mark(t, w.cfg.InUse, "a"); !m.ended() {
			pass(floor)
		}
		held, resume := make(chan struct{}, 1), make(chan struct{})
		w.api.mu.Lock()
		w.api.onPatch = func(body string) bool {
			if strings.Contains(body, "volumesInUse") {
				held <- struct{}{}
				<-resume
			}
			return false
		}
		w.api.mu.Unlock()
		drop(t, w.cfg.InUse, "a")
		<-held
		again := mark(t, w.cfg.InUse, "a")
		if again.ended() {
			t.Fatal("the volume is confirmed by a list that is about to lose it")
		}
		close(resume)
		pass(2 * floor)
		if got := w.api.now().Status.VolumesInUse; !slices.Equal(got, []v1.UniqueVolumeName{"a"}) || !again.ended() {
			t.Errorf("then: %v, confirmed %v", got, again.ended())
		}
	})
}

// TestRemovalThatArrivesLate: a patch that removes a volume gets no answer, and arrives when the volume is in use again. The
// API server refuses it.
func TestRemovalThatArrivesLate(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.cfg.InUse = NewInUse()
		w.cfg.InUse.Restore("a", "b")
		w.run(t)
		pass(floor)
		late := make(chan string, 1)
		w.api.mu.Lock()
		w.api.onPatch = func(body string) bool {
			if !strings.Contains(body, "volumesInUse") {
				return false
			}
			late <- body
			return true
		}
		w.api.mu.Unlock()
		dropped := drop(t, w.cfg.InUse, "a")
		pass(floor)
		body := <-late
		if dropped.ended() {
			t.Fatal("the volume counts as dropped, and the API server has it")
		}
		again := mark(t, w.cfg.InUse, "a")
		pass(2 * floor)
		if !again.ended() {
			t.Fatal("the volume isn't confirmed")
		}
		w.api.mu.Lock()
		w.api.patch("PATCH", []byte(body)) //nolint:bodyclose // It has no connection.
		w.api.mu.Unlock()
		if got := w.api.now().Status.VolumesInUse; !slices.Equal(got, []v1.UniqueVolumeName{"a", "b"}) {
			t.Errorf("after the late patch: %v", got)
		}
	})
}

// TestAttachedVolumes: a change of volumesAttached is told at once, other changes aren't.
func TestAttachedVolumes(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		calls := 0
		w.cfg.Attached = func() { w.set(func() { calls++ }) }
		w.run(t)
		w.set(func() { calls = 0 })
		w.api.change(func(n *v1.Node) { n.Status.VolumesAttached = []v1.AttachedVolume{{Name: "a"}} })
		synctest.Wait()
		w.api.change(func(n *v1.Node) { n.Labels = map[string]string{"x": "y"} })
		synctest.Wait()
		w.set(func() {
			if calls != 1 {
				t.Errorf("%d calls; want 1", calls)
			}
		})
	})
}
