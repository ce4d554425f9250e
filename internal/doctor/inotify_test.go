package doctor

import (
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// newInstance makes an inotify instance with two watches.
func newInstance(t *testing.T) *os.File {
	t.Helper()
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(fd), "inotify")
	t.Cleanup(func() { _ = f.Close() })
	for range 2 {
		if _, err := unix.InotifyAddWatch(fd, t.TempDir(), unix.IN_CREATE); err != nil {
			t.Fatal(err)
		}
	}
	return f
}

// An inotify instance that descriptors of a process share, or that a child has too, counts once, with its watches. On
// a kernel that can't compare descriptors, each of them counts.
func TestSharedInstanceCountsOnce(t *testing.T) {
	first, second := newInstance(t), newInstance(t)
	third, err := unix.InotifyInit1(unix.IN_CLOEXEC) // Its fdinfo is that of any instance without watches.
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(third)
	fourth, err := unix.InotifyInit1(unix.IN_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fourth)
	again, err := unix.FcntlInt(first.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(again)
	child := exec.CommandContext(t.Context(), "cat")
	child.ExtraFiles = []*os.File{first, second}
	stdin, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = stdin.Close()
		if err := child.Wait(); err != nil {
			t.Errorf("cat: %v", err)
		}
	}()

	me, machine := os.Getpid(), &examination{Config{Machine: "/"}}
	found, complete, err := machine.instances(t.Context(), usualBounds)
	if err != nil || !complete {
		t.Fatalf("complete: %v, error %v", complete, err)
	}
	if os.Getuid() != 0 { // instances returns those of root.
		found = []instance{
			{me, int(first.Fd())}, {me, int(second.Fd())}, {me, third}, {me, fourth}, {me, again},
			{child.Process.Pid, 3}, {child.Process.Pid, 4},
		}
	}
	found = slices.DeleteFunc(found, func(i instance) bool { return i.pid != me && i.pid != child.Process.Pid })
	if len(found) != 7 {
		t.Fatalf("the descriptors are %v; want 5 of this process and 2 of its child", found)
	}
	one, exact, err := distinct(t.Context(), found, machine.compare)
	if err != nil {
		t.Fatal(err)
	}
	var watches int64
	for _, i := range one {
		watches += machine.watches(i)
	}
	wantInstances, wantWatches, wantExact := 4, int64(4), true
	if _, err := machine.compare(found[0], found[0]); errors.Is(err, unix.ENOSYS) { // User-Mode Linux, for one
		t.Logf("this kernel has no kcmp(2)")
		wantInstances, wantWatches, wantExact = 7, 10, false
	}
	if len(one) != wantInstances || watches != wantWatches || exact != wantExact {
		t.Errorf("there are %d instances and %d watches, exact: %v; want %d and %d, %v", len(one), watches, exact, wantInstances, wantWatches, wantExact)
	}
}

// Descriptors that can't be compared count one by one, and the finding says that the number is an upper bound.
func TestInstancesThatCannotBeCompared(t *testing.T) {
	all := []instance{{1, 3}, {2, 3}, {1, 4}, {2, 4}}
	refuse := func(instance, instance) (int, error) { return 0, unix.EPERM }
	if one, exact, err := distinct(t.Context(), all, refuse); len(one) != len(all) || exact || err != nil {
		t.Errorf("of %d descriptors, %v are distinct, exact: %v, error %v; want all, and not exact", len(all), one, exact, err)
	}
	n := newNode(t)
	n.write("proc/sys/fs/inotify/max_user_instances", "8\n")
	for _, fd := range []string{"5", "6"} {
		n.link("proc/4711/fd/"+fd, "anon_inode:inotify")
	}
	f := find(Examine(t.Context(), n.config), "inotify", OK, "have at most 2 of 8 instances")
	if f == nil || strings.Contains(f.Advice, "sysctl") {
		t.Errorf("the finding is %v; want one of at most 2 instances", f)
	}
}
