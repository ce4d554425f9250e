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

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	internalapi "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/ptr"
)

// logCRI is a container runtime that is only asked whether a container runs.
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

// containerLog makes the log of attempt 2 of container main, and returns what reads it and its path.
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

// A follow brings what is written while it waits, and ends with the container, however that went.
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

// Followers are bounded, whoever they are, as each takes what the node has little of; one that ends makes room.
func TestReadLogFollowers(t *testing.T) {
	r, in, _ := containerLog(t, logCRI{running: func() (bool, error) { return false, nil }}, "2026-01-02T03:04:05Z stdout F one\n")
	r.cfg.MaxFollows = 1
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

// A container that writes without a pause doesn't have the runtime asked at each of its lines.
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
