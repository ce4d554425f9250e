package store_test

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/client"
	"github.com/podstream/podstream/internal/disktest"
	"github.com/podstream/podstream/internal/execsvc/loop/store"
)

// retry advances the clock past the pause after a failed write.
func (s *setting) retry(t testing.TB) {
	t.Helper()
	for !s.clock.HasWaiters() {
		runtime.Gosched()
	}
	s.clock.Step(time.Minute)
}

// TestUnwritable: while the store can't be written, podexecd goes on from memory, no call blocks, and one line is
// logged. Once it can be written, it gets the whole state.
func TestUnwritable(t *testing.T) {
	s := settingIn(filepath.Join(t.TempDir(), "missing"))
	st, _, stop := s.open(t)
	mustFail := func() {
		t.Helper()
		if err := st.SetEnd(t.Context(), "c", store.End{Grace: 9}); !errors.Is(err, os.ErrNotExist) {
			t.Fatalf("SetEnd without a directory: %v; want the reason", err)
		}
	}
	st.Apply(event(1, change(client.Add, newPod("a", "file", 1), newPod("b", "file", 1))))
	mustFail()
	st.Apply(event(2, change(client.Remove, reference(newPod("a", "file", 1)))))
	st.SetStatus("b", podStatus(v1.PodRunning, ""), s.clock.Now())
	mustFail()
	s.retry(t)
	// The next pause begins after that failure.
	for !s.clock.HasWaiters() {
		runtime.Gosched()
	}
	mustFail()
	if n := strings.Count(s.log.String(), "level=ERROR"); n != 1 {
		t.Errorf("the log has %d errors; want one:\n%s", n, s.log)
	}
	if len(s.committed) > 0 {
		t.Errorf("revision %d is committed", <-s.committed)
	}

	if err := os.Mkdir(filepath.Dir(s.cfg.Path), 0o700); err != nil {
		t.Fatal(err)
	}
	s.retry(t)
	if revision := <-s.committed; revision != 2 {
		t.Errorf("revision %d is committed; want 2", revision)
	}
	mustFlush(t, st)
	if !strings.Contains(s.log.String(), "can be written again") {
		t.Errorf("the log has no line about the success:\n%s", s.log)
	}
	stop()
	state := s.state(t)
	if len(state.Pods) != 1 || state.Pods[0].UID != "b" || state.Cursor.GetRevision() != 2 ||
		state.Ends["c"].Grace != 9 || state.Statuses["b"].Status == nil {
		t.Errorf("the state is %+v; want pod b with its status and the end of c, at revision 2", state)
	}
}

// TestFullDisk: a write that doesn't fit is an error, and the old state stays. Once there is space, the whole state is
// written.
func TestFullDisk(t *testing.T) {
	dir := disktest.Small(t)
	s := settingIn(dir)
	st, _, stop := s.open(t)
	st.Apply(event(1, change(client.Add, newPod("a", "file", 1))))
	mustFlush(t, st)
	free := disktest.FillUp(t, dir)

	large := newPod("b", "file", 1)
	large.Object.Annotations = map[string]string{"note": strings.Repeat("x", 60_000)}
	st.Apply(event(2, change(client.Add, large)))
	if err := st.SetEnd(t.Context(), "b", store.End{Grace: 5}); !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("SetEnd on a full disk: %v; want ENOSPC", err)
	}
	// Pods that were added and removed meanwhile leave no record.
	for i := range 1000 {
		pod := newPod(strconv.Itoa(i), "file", 1)
		st.Apply(event(uint64(i+3), change(client.Add, pod), change(client.Remove, reference(pod))))
	}
	// A start with the full disk restores the old state.
	stop()
	if names := s.beside(t); len(names) > 0 {
		t.Errorf("beside the store there are %v; want nothing", names)
	}
	// The pause of the first store must not be mistaken for that of the next one.
	s.clock.Step(time.Minute)
	st, state, stop := s.open(t)
	if diff := diff(store.State{Cursor: cursor(1), Pods: []client.Pod{newPod("a", "file", 1)},
		Statuses: state.Statuses, Ends: state.Ends}, state); diff != "" {
		t.Errorf("the store on a full disk (-want +got):\n%s", diff)
	}
	st.Apply(event(1002, change(client.Add, large)))
	if err := st.Flush(t.Context()); !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("Flush on a full disk: %v; want ENOSPC", err)
	}

	free()
	for len(s.committed) > 0 {
		<-s.committed
	}
	s.retry(t)
	<-s.committed
	stop()
	want := store.State{Cursor: cursor(1002), Pods: []client.Pod{newPod("a", "file", 1), large}, Statuses: state.Statuses, Ends: state.Ends}
	if diff := diff(want, s.state(t)); diff != "" {
		t.Errorf("the store, once there was space (-want +got):\n%s", diff)
	}
	if names := s.beside(t); len(names) > 0 {
		t.Errorf("beside the store there are %v; want nothing", names)
	}
}

// TestReadOnlyDisk: the state is read, and the store is written once it can be.
func TestReadOnlyDisk(t *testing.T) {
	dir := disktest.Small(t)
	s := settingIn(dir)
	st, _, stop := s.open(t)
	st.Apply(event(1, change(client.Add, newPod("a", "file", 1))))
	stop()
	<-s.committed
	remount := func(flags uintptr) {
		t.Helper()
		if err := unix.Mount("", dir, "", unix.MS_REMOUNT|flags, ""); err != nil {
			t.Fatal(err)
		}
	}
	remount(unix.MS_RDONLY)
	st, state, stop := s.open(t)
	if len(state.Pods) != 1 || state.Cursor.GetRevision() != 1 {
		t.Errorf("the state is %+v; want pod a at revision 1", state)
	}
	st.Apply(event(2, change(client.Add, newPod("b", "file", 1))))
	if err := st.Flush(t.Context()); !errors.Is(err, unix.EROFS) {
		t.Errorf("Flush on a read-only disk: %v; want EROFS", err)
	}
	remount(0)
	s.retry(t)
	<-s.committed
	stop()
	if state := s.state(t); len(state.Pods) != 2 || state.Cursor.GetRevision() != 2 {
		t.Errorf("the state is %+v; want pods a and b at revision 2", state)
	}
}

// TestDraftLeft: a draft of a killed process is ignored.
func TestDraftLeft(t *testing.T) {
	s := newSetting(t)
	if err := os.WriteFile(s.cfg.Path+".new", []byte("half of it"), 0o644); err != nil {
		t.Fatal(err)
	}
	st, _, stop := s.open(t)
	st.Apply(event(1))
	mustFlush(t, st)
	stop()
	if got := s.state(t).Cursor.GetRevision(); got != 1 {
		t.Errorf("the cursor is at %d; want 1", got)
	}
	if names, _ := filepath.Glob(s.cfg.Path + "?*"); len(names) > 0 {
		t.Errorf("beside the store there are %v; want nothing", names)
	}
}
