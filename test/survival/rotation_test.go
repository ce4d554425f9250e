package survival

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstream/podstream/internal/failpoint"
	"github.com/podstream/podstream/test/devnode"
	"github.com/podstream/podstream/test/rig"
)

// writesALog is a pod whose container writes 1.5 MB of numbered lines in a second.
const writesALog = `
apiVersion: v1
kind: Pod
metadata: {name: writer}
spec:
  restartPolicy: Never
  containers: [{name: main, image: "` + devnode.SampleImage + `", imagePullPolicy: IfNotPresent, args: [count, "10000"]}]
`

// TestRotationPoints kills podexecd at each step of the rotation of a log, starts it again, and checks that the log is
// rotated again, and that no line is lost or doubled. The container writes all the time, on containerd.
func TestRotationPoints(t *testing.T) {
	node := startNode(t, devnode.Config{Runtime: devnode.Containerd2, BinDir: binaries(t, "failpoints")})
	r, err := rig.Start(node, "rotation", "--container-log-max-size=64Ki", "--container-log-max-files=5000")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(r.Clear(), r.Close()); err != nil {
			t.Error(err)
		}
	})
	l := &writtenLog{t: t, r: r}
	if err := r.Write("writer.yaml", writesALog); err != nil {
		t.Fatal(err)
	}
	l.awaitRotations(2)
	for _, point := range failpoint.RotationPoints() {
		if err := errors.Join(r.Podexecd.Stop(), r.Podexecd.StartWith(failpoint.DieAt+"="+string(point)+":3")); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		select {
		case <-r.Podexecd.Done():
		case <-ctx.Done():
			t.Fatalf("%s was never reached", point)
		}
		cancel()
		if err := diedAt(r.Podexecd, point); err != nil {
			t.Fatal(err)
		}
		left := l.names()
		if err := r.Podexecd.Start(); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		l.awaitRotations(3)
		t.Logf("%s: of %d files, the last are %q; rotated again after %v", point, len(left), left[max(0, len(left)-3):], time.Since(began).Round(time.Millisecond))
	}
	l.end()
	l.wantWhole()
}

// writtenLog is the log of writesALog.
type writtenLog struct {
	t *testing.T
	r *rig.Rig
}

// names returns the names of the log's files, in order; the current one, if it exists, is the last.
func (l *writtenLog) names() (names []string) {
	l.t.Helper()
	paths, err := filepath.Glob(l.r.Path("log", "pods", "default_writer-*", "main", "0.log*"))
	if err != nil {
		l.t.Fatal(err)
	}
	for _, path := range paths {
		names = append(names, filepath.Base(path))
	}
	slices.SortFunc(names, func(a, b string) int {
		switch {
		case a == b:
			return 0
		case a == "0.log":
			return 1
		case b == "0.log":
			return -1
		}
		return strings.Compare(strings.TrimSuffix(a, ".gz"), strings.TrimSuffix(b, ".gz"))
	})
	return names
}

// rotated returns how many rotated logs there are.
func (l *writtenLog) rotated() int {
	parts := map[string]bool{}
	for _, name := range l.names() {
		parts[strings.TrimSuffix(strings.TrimSuffix(name, ".gz"), ".tmp")] = true
	}
	delete(parts, "0.log")
	return len(parts)
}

func (l *writtenLog) awaitRotations(n int) {
	l.t.Helper()
	want := l.rotated() + n
	if err := rig.Poll(patience, func() error {
		if has := l.rotated(); has < want {
			return fmt.Errorf("there are %d rotated logs; want %d; podexecd's log ends with:\n%s", has, want, l.r.Podexecd.LogTail())
		}
		return nil
	}); err != nil {
		l.t.Fatal(err)
	}
}

// end ends the container, and waits until nothing is left to compress.
func (l *writtenLog) end() {
	l.t.Helper()
	list, err := l.r.CRI.ListContainers(l.t.Context(), &runtimeapi.ListContainersRequest{})
	if err != nil || len(list.GetContainers()) != 1 {
		l.t.Fatalf("%v, %v", list, err)
	}
	id := list.GetContainers()[0].GetId()
	if _, err := l.r.CRI.StopContainer(l.t.Context(), &runtimeapi.StopContainerRequest{ContainerId: id, Timeout: int64(patience / time.Second)}); err != nil {
		l.t.Fatal(err)
	}
	if err := rig.Poll(patience, func() error {
		names := l.names()
		for _, name := range names[:max(0, len(names)-2)] {
			if !strings.HasSuffix(name, ".gz") {
				return fmt.Errorf("%s isn't compressed, or left over", name)
			}
		}
		return nil
	}); err != nil {
		l.t.Fatal(err)
	}
}

// wantWhole fails unless the files have each line once, and in order.
func (l *writtenLog) wantWhole() {
	l.t.Helper()
	last, end, line := 0, 0, ""
	names := l.names()
	for _, name := range names {
		for text := range strings.Lines(l.text(name)) {
			parts := strings.SplitN(strings.TrimSuffix(text, "\n"), " ", 4)
			if len(parts) != 4 {
				l.t.Fatalf("%s: %q", name, text)
			}
			line += parts[3]
			if parts[2] != "F" {
				continue
			}
			n := 0
			if _, err := fmt.Sscanf(line, "last %d", &end); err != nil {
				if _, err := fmt.Sscan(line, &n); err != nil || n != last+1 {
					l.t.Fatalf("%s: after %d follows %q", name, last, line)
				}
				last = n
			}
			line = ""
		}
	}
	if end != last || last == 0 {
		l.t.Errorf("the last line is %d; want %d", last, end)
	}
	l.t.Logf("%d lines in %d files, each line once", last, len(names))
}

func (l *writtenLog) text(name string) string {
	l.t.Helper()
	paths, err := filepath.Glob(l.r.Path("log", "pods", "default_writer-*", "main", name))
	if err != nil || len(paths) != 1 {
		l.t.Fatalf("%q, %v", paths, err)
	}
	f, err := os.Open(paths[0])
	if err != nil {
		l.t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	from := io.Reader(f)
	if strings.HasSuffix(name, ".gz") {
		if from, err = gzip.NewReader(f); err != nil {
			l.t.Fatal(err)
		}
	}
	text, err := io.ReadAll(from)
	if err != nil {
		l.t.Fatalf("%s: %v", name, err)
	}
	return string(text)
}
