package subpath

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/podstream/podstream/internal/roottest"
)

// doomedEnv makes the test binary prepare subPaths of the volume in that directory until it is killed.
const doomedEnv = "PODSTREAM_TEST_SUBPATH_DOOMED"

func TestMain(m *testing.M) {
	if dir := os.Getenv(doomedEnv); dir != "" {
		fmt.Fprintln(os.Stderr, doomed(dir))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// doomed writes a byte after each step.
func doomed(dir string) error {
	for i := 0; ; i++ {
		targets := filepath.Join(dir, "u1", targetsName)
		for c, sub := range []string{"dir", "file", fmt.Sprintf("new%d/deep", i%3)} {
			req := Request{Root: filepath.Join(dir, "vol"), SubPath: sub, ReadOnly: c > 0, Target: targetOf(targets, fmt.Sprint(c))}
			if _, err := Prepare(context.Background(), req); err != nil {
				return err
			}
			if _, err := os.Stdout.Write([]byte{'.'}); err != nil {
				return err
			}
		}
		if i%2 == 0 {
			if err := CleanUp(targets, nil); err != nil {
				return err
			}
		}
	}
}

func TestKilledAtAnyMoment(t *testing.T) {
	roottest.Need(t, "mounting")
	dir := t.TempDir()
	targets, vol := filepath.Join(dir, "u1", targetsName), filepath.Join(dir, "vol")
	t.Cleanup(func() {
		if err := CleanUp(targets, nil); err != nil {
			t.Error(err)
		}
	})
	write(t, filepath.Join(vol, "dir", "file"), "x")
	write(t, filepath.Join(vol, "file"), "x")
	for n := range 20 {
		child := exec.Command(os.Args[0])
		child.Env = append(os.Environ(), doomedEnv+"="+dir)
		child.Stderr = os.Stderr
		out, err := child.StdoutPipe()
		must(t, err)
		must(t, child.Start())
		steps := bufio.NewReader(out)
		for range n + 1 {
			if _, err := steps.ReadByte(); err != nil {
				t.Errorf("the child has ended: %v", err)
				break
			}
		}
		must(t, child.Process.Kill())
		_ = child.Wait() // it was killed
		if n%2 == 0 {
			// A new process continues after the killed one.
			prepare(t, Request{Root: vol, SubPath: "dir", Target: targetOf(targets, "1")})
			same(t, targetOf(targets, "1"), filepath.Join(vol, "dir"))
		}
		must(t, CleanUp(targets, nil))
		gone(t, targets)
		for _, file := range []string{"file", "dir/file"} {
			if _, err := os.Stat(filepath.Join(vol, file)); err != nil {
				t.Fatalf("the volume has lost a file: %v", err)
			}
		}
	}
}

func TestStoppedAfterEachStep(t *testing.T) {
	for steps := range 5 {
		for _, sub := range []string{"dir", "file"} {
			for _, again := range []bool{false, true} {
				dir := newTargets(t)
				given, resolved, _ := volume(t)
				path := targetOf(dir, "c")
				stopAfter(t, steps, filepath.Join(resolved, sub), path)
				if again {
					prepare(t, Request{Root: given, SubPath: sub, ReadOnly: true, Target: path})
					same(t, path, filepath.Join(resolved, sub))
					if err := unix.Access(path, unix.W_OK); err != unix.EROFS {
						t.Errorf("stopped after %d: access returns %v, want EROFS", steps, err)
					}
				}
				must(t, CleanUp(dir, nil))
				gone(t, dir)
				if _, err := os.Stat(filepath.Join(resolved, sub)); err != nil {
					t.Error(err)
				}
			}
		}
	}
}

// stopAfter runs the first steps of Prepare.
func stopAfter(t *testing.T, steps int, source, path string) {
	t.Helper()
	fd, err := unix.Open(source, unix.O_PATH|unix.O_CLOEXEC, 0)
	must(t, err)
	defer unix.Close(fd)
	var opened *target
	for _, step := range []func() error{
		func() (err error) { opened, err = openTarget(path); return err },
		func() error { return opened.make(fd) },
		func() error { return unix.Mount(byDescriptor(fd), path, "", unix.MS_BIND, "") },
		func() error { return opened.protect() },
	}[:steps] {
		must(t, step())
	}
	if opened != nil {
		opened.close()
	}
}
