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
	"github.com/podstream/podstream/internal/execsvc/store"
)

// retry lets the pause after a failed write pass.
func (s *setting) retry(t testing.TB) {
	t.Helper()
	for !s.clock.HasWaiters() {
		runtime.Gosched()
	}
	s.clock.Step(time.Minute)
}

// TestUnwritable: while the store can't be written, podexecd goes on from memory, nobody waits, the log says so once, and once it can be
// written the whole state is.
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
	// The next pause begins once that has failed.
	for !s.clock.HasWaiters() {
		runtime.Gosched()
	}
	mustFail()
	if n := strings.Count(s.log.String(), "level=ERROR"); n != 1 {
		t.Errorf("the log has %d errors; want one:\n%s", n, s.log)
	}
	if len(s.committed) > 0 {
		t.Errorf("revision %d is told to be on disk", <-s.committed)
	}

	if err := os.Mkdir(filepath.Dir(s.cfg.Path), 0o700); err != nil {
		t.Fatal(err)
	}
	s.retry(t)
	if revision := <-s.committed; revision != 2 {
		t.Errorf("revision %d is told to be on disk; want 2", revision)
	}
	mustFlush(t, st)
	if !strings.Contains(s.log.String(), "can be written again") {
		t.Errorf("the log doesn't say that the store is back:\n%s", s.log)
	}
	stop()
	state := s.state(t)
	if len(state.Pods) != 1 || state.Pods[0].UID != "b" || state.Cursor.GetRevision() != 2 ||
		state.Ends["c"].Grace != 9 || state.Statuses["b"].Status == nil {
		t.Errorf("the state is %+v; want pod b with its status and the end of c, at revision 2", state)
	}
}

// smallDisk is a file system of half a MiB. Its test skips unless root runs it; under `make test`, which has to run all, it fails.
func smallDisk(t *testing.T) (dir string) {
	t.Helper()
	switch {
	case os.Geteuid() == 0:
	case os.Getenv("PODSTREAM_REQUIRE_RUNTIME") != "":
		t.Fatal("mounts need root")
	default:
		t.Skip("mounts need root: sudo make test")
	}
	dir = t.TempDir()
	if err := unix.Mount("podstream-test", dir, "tmpfs", 0, "size=512k"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	return dir
}

// fillUp leaves no room in the directory until the file is removed.
func fillUp(t *testing.T, dir string) (ballast string) {
	t.Helper()
	ballast = filepath.Join(dir, "ballast")
	f, err := os.Create(ballast)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for page := make([]byte, os.Getpagesize()); err == nil; {
		_, err = f.Write(page)
	}
	if !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("filling up the disk ends with %v; want ENOSPC", err)
	}
	return ballast
}

// TestFullDisk: what doesn't fit is an error, what was there stays, and once there is room everything goes in.
func TestFullDisk(t *testing.T) {
	dir := smallDisk(t)
	s := settingIn(dir)
	st, _, stop := s.open(t)
	st.Apply(event(1, change(client.Add, newPod("a", "file", 1))))
	mustFlush(t, st)
	ballast := fillUp(t, dir)

	large := newPod("b", "file", 1)
	large.Object.Annotations = map[string]string{"note": strings.Repeat("x", 60_000)}
	st.Apply(event(2, change(client.Add, large)))
	if err := st.SetEnd(t.Context(), "b", store.End{Grace: 5}); !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("SetEnd on a full disk: %v; want ENOSPC", err)
	}
	// Pods that came and went meanwhile leave nothing.
	for i := range 1000 {
		pod := newPod(strconv.Itoa(i), "file", 1)
		st.Apply(event(uint64(i+3), change(client.Add, pod), change(client.Remove, reference(pod))))
	}
	// Who starts on the full disk finds what was there before it was full.
	stop()
	if names := s.beside(t); len(names) > 0 {
		t.Errorf("beside the store there are %v; want nothing", names)
	}
	// The pause that the first one was in isn't to be taken for the next one's.
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

	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	for len(s.committed) > 0 {
		<-s.committed
	}
	s.retry(t)
	<-s.committed
	stop()
	want := store.State{Cursor: cursor(1002), Pods: []client.Pod{newPod("a", "file", 1), large}, Statuses: state.Statuses, Ends: state.Ends}
	if diff := diff(want, s.state(t)); diff != "" {
		t.Errorf("the store, once there was room (-want +got):\n%s", diff)
	}
	if names := s.beside(t); len(names) > 0 {
		t.Errorf("beside the store there are %v; want nothing", names)
	}
}

// TestReadOnlyDisk: what is in the store is read, and it is written once it can be.
func TestReadOnlyDisk(t *testing.T) {
	dir := smallDisk(t)
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

// TestDraftLeft: a draft that a killed process left is of no account.
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
