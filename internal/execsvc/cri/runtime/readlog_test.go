package runtime

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	internalapi "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/ptr"

	"github.com/podstream/podstream/internal/execsvc/machine/share"
	"github.com/podstream/podstream/internal/openfile"
)

// logCRI is a container runtime that only reports whether a container runs.
type logCRI struct {
	internalapi.RuntimeService
	// running is called for each answer.
	running func() (bool, error)
}

func (c logCRI) ContainerStatus(context.Context, string, bool) (*runtimeapi.ContainerStatusResponse, error) {
	running, err := c.running()
	if err != nil {
		return nil, err
	}
	state := runtimeapi.ContainerState_CONTAINER_EXITED
	if running {
		state = runtimeapi.ContainerState_CONTAINER_RUNNING
	}
	return &runtimeapi.ContainerStatusResponse{Status: &runtimeapi.ContainerStatus{State: state}}, nil
}

// containerLog creates the log of attempt 2 of container main, and returns its input and its path.
func containerLog(t *testing.T, cri internalapi.RuntimeService, lines ...string) (*Runtime, LogInput, string) {
	t.Helper()
	root := t.TempDir()
	path := filepath.Join(root, "default_web_uid-1", "main", "2.log")
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(strings.Join(lines, "")), 0o600); err != nil {
		t.Fatal(err)
	}
	in := LogInput{UID: "uid-1", Namespace: "default", Name: "web", Container: "main", Attempt: 2}
	return New(Config{Runtime: cri, LogsDir: root}), in, path
}

func TestReadLog(t *testing.T) {
	const one, two = "2026-01-02T03:04:05.000000001Z stdout F one\n", "2026-01-02T03:04:06.000000001Z stderr F two\n"
	const three = "2026-01-02T03:04:07.000000001Z stdout F three\n"
	r, in, _ := containerLog(t, nil, one, two, three)
	for _, tc := range []struct {
		name           string
		change         func(*LogInput)
		stdout, stderr string
	}{
		{"all", func(*LogInput) {}, "one\nthree\n", "two\n"},
		{"the last lines", func(in *LogInput) { in.TailLines = ptr.To[int64](2) }, "three\n", "two\n"},
		{"no lines", func(in *LogInput) { in.TailLines = ptr.To[int64](0) }, "", ""},
		{"the first bytes", func(in *LogInput) { in.LimitBytes = ptr.To[int64](6) }, "one\n", "tw"},
		{"since", func(in *LogInput) { in.Since = time.Date(2026, 1, 2, 3, 4, 7, 0, time.UTC) }, "three\n", ""},
		{"times", func(in *LogInput) { in.Timestamps, in.TailLines = true, ptr.To[int64](1) }, "2026-01-02T03:04:07.000000001Z three\n", ""},
	} {
		var stdout, stderr bytes.Buffer
		in := in
		in.Stdout, in.Stderr = &stdout, &stderr
		tc.change(&in)
		if err := r.ReadLog(t.Context(), in); err != nil || stdout.String() != tc.stdout || stderr.String() != tc.stderr {
			t.Errorf("%s: error %v, stdout %q, stderr %q; want %q and %q", tc.name, err, &stdout, &stderr, tc.stdout, tc.stderr)
		}
	}
	in.Attempt = 1
	if err := r.ReadLog(t.Context(), in); !errors.Is(err, ErrNoLog) {
		t.Errorf("the log of another attempt: %v; want ErrNoLog", err)
	}
}

// A follow returns lines that are written while it waits, and ends with the container, whatever its result.
func TestReadLogFollows(t *testing.T) {
	for name, ending := range map[string]error{"it ends": nil, "it is removed": status.Error(codes.NotFound, "no such container")} {
		t.Run(name, func(t *testing.T) {
			const line = "2026-01-02T03:04:05.000000001Z stdout F "
			asked := 0
			var path string
			r, in, path := containerLog(t, logCRI{running: func() (bool, error) {
				if asked++; asked == 1 {
					f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
					if err != nil {
						return false, err
					}
					defer f.Close()
					_, err = f.WriteString(line + "two\n")
					return true, err
				}
				return false, ending
			}}, line+"one\n")
			var stdout bytes.Buffer
			var idle []string
			in.Follow, in.ContainerID, in.Stdout = true, "c1", &stdout
			in.Idle = func() error {
				idle = append(idle, stdout.String())
				return nil
			}
			if err := r.ReadLog(t.Context(), in); err != nil || stdout.String() != "one\ntwo\n" {
				t.Errorf("error %v, stdout %q", err, &stdout)
			}
			if len(idle) < 2 || idle[0] != "one\n" || idle[1] != "one\ntwo\n" {
				t.Errorf("what had been read whenever it waited: %q", idle)
			}
		})
	}
}

func TestReadLogFollowOfTheEnded(t *testing.T) {
	r, in, _ := containerLog(t, nil, "2026-01-02T03:04:05Z stdout F one\n")
	var stdout bytes.Buffer
	in.Follow, in.Stdout = true, &stdout
	if err := r.ReadLog(t.Context(), in); err != nil || stdout.String() != "one\n" {
		t.Errorf("error %v, stdout %q", err, &stdout)
	}
}

// The number of follows is bounded for all callers, because each takes scarce resources of the node; one that ends
// frees a place.
func TestReadLogFollowers(t *testing.T) {
	r, in, _ := containerLog(t, logCRI{running: func() (bool, error) { return false, nil }}, "2026-01-02T03:04:05Z stdout F one\n")
	r.follows = share.New(1)
	in.Follow, in.ContainerID, in.Stdout = true, "c1", io.Discard
	second := in
	in.Idle = func() error {
		if err := r.ReadLog(t.Context(), second); !errors.Is(err, ErrTooManyFollows) {
			t.Errorf("a second one: %v; want ErrTooManyFollows", err)
		}
		plain := second
		plain.Follow = false
		return r.ReadLog(t.Context(), plain)
	}
	if err := r.ReadLog(t.Context(), in); err != nil {
		t.Error(err)
	}
	if err := r.ReadLog(t.Context(), second); err != nil {
		t.Errorf("after the first has ended: %v", err)
	}
}

// One caller may follow the logs of many containers at once, as kubectl logs -f -l does; others have their share then
// too.
func TestOneCallerFollowsManyLogs(t *testing.T) {
	r, in, _ := containerLog(t, logCRI{running: func() (bool, error) { return false, nil }}, "2026-01-02T03:04:05Z stdout F one\n")
	in.Follow, in.ContainerID, in.Stdout, in.Caller = true, "c1", io.Discard, "one"
	const wanted = 150
	follows := 0
	in.Idle = func() error {
		if follows++; follows == wanted {
			other := in
			other.Idle, other.Caller, other.Namespace, other.UID = nil, "two", "elsewhere", "other"
			if err := r.ReadLog(t.Context(), other); !errors.Is(err, ErrNoLog) {
				t.Errorf("another one: %v; want that there is no log", err)
			}
			return nil
		}
		return r.ReadLog(t.Context(), in)
	}
	if err := r.ReadLog(t.Context(), in); err != nil || follows != wanted {
		t.Errorf("%d follows, %v; want %d", follows, err, wanted)
	}
}

// With many follows, each calls the runtime less often.
func TestManyFollowsAskLessOften(t *testing.T) {
	r, _, _ := containerLog(t, nil)
	if got := r.askPause(); got != askRunning {
		t.Errorf("%v; want %v", got, askRunning)
	}
	for range 128 {
		if _, err := r.follows.Take(); err != nil {
			t.Fatal(err)
		}
	}
	if got := r.askPause(); got != 4*askRunning {
		t.Errorf("with 128 follows %v; want %v", got, 4*askRunning)
	}
}

// A container that writes without a pause doesn't cause a call to the runtime for each line.
func TestReadLogFollowOfTheChatty(t *testing.T) {
	const line = "2026-01-02T03:04:05.000000001Z stdout F x\n"
	asked, waits := 0, 0
	var path string
	r, in, path := containerLog(t, logCRI{running: func() (bool, error) {
		asked++
		return true, nil
	}}, line)
	enough := errors.New("enough")
	in.Follow, in.ContainerID, in.Stdout = true, "c1", io.Discard
	in.Idle = func() error {
		if waits++; waits == 100 {
			return enough
		}
		f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = f.WriteString(line)
		return err
	}
	began := time.Now()
	if err := r.ReadLog(t.Context(), in); !errors.Is(err, enough) {
		t.Fatalf("error %v; want that of Idle", err)
	}
	if most := 1 + int(time.Since(began)/askRunning); asked > most {
		t.Errorf("the runtime was asked %d times in %v; want %d at most", asked, time.Since(began), most)
	}
}

// A file that a pod with a writable hostPath puts in place of a log isn't followed, waited for or quoted, in an answer
// or in a container's message.
func TestWhatIsNoLog(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "shadow")
	if err := os.WriteFile(secret, []byte("root:SECRET\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, plant := range map[string]func(path string) error{
		"a link": func(path string) error { return os.Symlink(secret, path) },
		"a FIFO": func(path string) error { return unix.Mkfifo(path, 0o644) },
		"a file": func(path string) error { return os.WriteFile(path, []byte("root:SECRET\n"), 0o600) },
	} {
		r, in, path := containerLog(t, nil)
		if err := errors.Join(os.Remove(path), plant(path)); err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		in.Stdout, in.Stderr = &out, &out
		err := r.ReadLog(t.Context(), in)
		if err == nil || strings.Contains(err.Error(), "SECRET") || out.Len() > 0 {
			t.Errorf("%s: %v, %q", name, err, &out)
		}
		if text := lastLog(t.Context(), r.cfg.LogsDir, path); text != "" {
			t.Errorf("%s: the message is %q", name, text)
		}
		if text, err := lastBytes(r.cfg.LogsDir, path, maxMessage); name != "a file" && (err == nil || text != "") {
			t.Errorf("%s: the message is %q", name, text)
		}
	}
}

// A container's message has the end of its log, however long that is, and a lease on the message's file isn't waited
// for.
func TestMessagesAreBounded(t *testing.T) {
	r, _, path := containerLog(t, nil)
	if err := os.Truncate(path, 1<<40); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString("\n2026-01-02T03:04:05Z stdout F one\n2026-01-02T03:04:05Z stderr F two\n"); err != nil {
		t.Fatal(err)
	}
	if text := lastLog(t.Context(), r.cfg.LogsDir, path); text != "one\ntwo\n" {
		t.Errorf("%q", text)
	}
	if text, err := lastBytes(r.cfg.LogsDir, path, 4); err != nil || text != "two\n" {
		t.Errorf("%q, %v", text, err)
	}
	if _, err := unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_WRLCK); err != nil {
		t.Fatal(err)
	}
	if text, err := lastBytes(r.cfg.LogsDir, path, 4); !errors.Is(err, openfile.ErrLeased) {
		t.Errorf("%q, %v", text, err)
	}
}
