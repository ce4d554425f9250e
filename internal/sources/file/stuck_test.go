package file

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podstream/podstream/internal/manifest"
)

// TestKernelFileIsHeld: a link to a file that the kernel generates is held, like anything that isn't a manifest on a
// disk: its reader may block forever.
func TestKernelFileIsHeld(t *testing.T) {
	t.Parallel()
	for name, target := range map[string]string{
		"waits for messages":    "/proc/kmsg",
		"leads into a process":  "/proc/self/root/etc/passwd",
		"is the reader's own":   "/proc/self/environ",
		"has settings of sysfs": "/sys/kernel/uevent_seqnum",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			write(t, filepath.Join(dir, "a.yaml"), pod("a", "v1"))
			r := run(t, Config{Path: dir, CheckFrequency: 20 * time.Millisecond})
			r.expect("a.yaml a=v1")
			must(t, os.Symlink(target, filepath.Join(dir, "e.yaml")))
			r.await("a.yaml a=v1", "e.yaml held")
			place(t, filepath.Join(dir, "b.yaml"), pod("b", "v1"))
			r.await("a.yaml a=v1", "b.yaml b=v1", "e.yaml held")
		})
	}
}

// TestLeasedFile: a file on which another process holds a lease is read when the lease is released, and nothing waits
// meanwhile.
func TestLeasedFile(t *testing.T) {
	t.Parallel()
	leasable(t)
	dir := t.TempDir()
	path := filepath.Join(dir, "a.yaml")
	write(t, path, pod("a", "v1"))
	holder, err := os.OpenFile(path, os.O_RDWR, 0)
	must(t, err)
	defer holder.Close()
	_, err = unix.FcntlInt(holder.Fd(), unix.F_SETLEASE, unix.F_WRLCK)
	must(t, err)
	r := run(t, Config{Path: dir})
	set := r.expect("a.yaml held")
	if got := origin(t, set, "a.yaml").Findings[0].Message; got != errLeased.Error() {
		t.Errorf("a.yaml is held as it %q", got)
	}
	place(t, filepath.Join(dir, "b.yaml"), pod("b", "v1"))
	r.await("a.yaml held", "b.yaml b=v1")
	must(t, holder.Close())
	r.await("a.yaml a=v1", "b.yaml b=v1")
}

// TestNothingIsHandedOverAfterTheEnd: work that ends together with its context may have been interrupted, so no
// set is sent: a set that lacks files would remove their pods.
func TestNothingIsHandedOverAfterTheEnd(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a.yaml"), pod("a", "v1"))
	write(t, filepath.Join(dir, "b.yaml"), pod("b", "v1"))
	for range 100 {
		ctx, cancel := context.WithCancel(t.Context())
		s := New(Config{Path: dir, Node: "n", Logger: slog.New(slog.DiscardHandler)})
		s.writersOf = func(*os.File) writers {
			cancel()
			return writersNone
		}
		s.Run(ctx, func(set manifest.Set) {
			t.Errorf("a set of %d origins is handed over, error %v; want none", len(set.Origins), set.Err)
		})
	}
}

// blocking makes the Source block in a system call on each file, from the call of arm until the test's end or
// release.
func blocking(t *testing.T) (prepare func(*Source), arm, release func()) {
	t.Helper()
	var armed, freed = make(chan struct{}), make(chan struct{})
	release = func() {
		select {
		case <-freed:
		default:
			close(freed)
		}
	}
	t.Cleanup(release)
	return func(s *Source) {
		// A loaded machine may take some 100 ms to answer too.
		s.stuckAfter, s.endGrace = 2*time.Second, 20*time.Millisecond
		s.writersOf = func(f *os.File) writers {
			select {
			case <-armed:
				<-freed
			default:
			}
			return writersOf(f)
		}
	}, func() { close(armed) }, release
}

// TestStuckFileSystem: a file system that doesn't answer is an error of the source, until it answers.
func TestStuckFileSystem(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a.yaml"), pod("a", "v1"))
	prepare, arm, release := blocking(t)
	r := run(t, Config{Path: dir}, prepare)
	r.expect("a.yaml a=v1")
	arm()
	place(t, filepath.Join(dir, "b.yaml"), pod("b", "v1"))
	set := r.expect("error")
	if !strings.Contains(set.Err.Error(), filepath.Join(dir, "b.yaml")) {
		t.Errorf("the error doesn't name the file: %v", set.Err)
	}
	release()
	r.await("a.yaml a=v1", "b.yaml b=v1")
}

// TestRunEndsThoughStuck: Run ends with its context, even if the file system doesn't answer.
func TestRunEndsThoughStuck(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a.yaml"), pod("a", "v1"))
	prepare, arm, _ := blocking(t)
	arm()
	s := New(Config{Path: dir, Logger: slog.New(slog.DiscardHandler)})
	prepare(s)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		ended <- s.Run(ctx, func(set manifest.Set) {
			if set.Err != nil {
				cancel()
			}
		})
	}()
	select {
	case err := <-ended:
		must(t, err)
	case <-time.After(patience):
		t.Fatal("Run doesn't end")
	}
}
