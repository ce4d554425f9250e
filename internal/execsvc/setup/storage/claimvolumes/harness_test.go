package claimvolumes

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/podstream/podstream/internal/execsvc/setup/foreign"
	"github.com/podstream/podstream/internal/execsvc/setup/foreign/tree"
	"github.com/podstream/podstream/internal/execsvc/setup/storage"
	"github.com/podstream/podstream/internal/execsvc/setup/storage/directory"
	"github.com/podstream/podstream/internal/execsvc/setup/storage/record"
	"github.com/podstream/podstream/internal/logtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	data       = directory.Claim{Namespace: "default", Name: "data"}
	errPlanted = errors.New("planted")
	// errCrashed is the error of a helper that ended without an answer.
	errCrashed = errors.New("the helper process ended without an answer")
)

// node has Volumes with a volume default/data, which has a file "old". It is the Helpers, the Storage and the Bindings, and does
// the helpers' jobs in this process.
type node struct {
	*Volumes
	t    *testing.T
	root string
	logs logtest.Buffer

	mu    sync.Mutex
	steps []string
	// before and after are errors of a kind of step, before it was done and afterwards.
	before, after map[string]error
	// surveys are the errors of the next surveys, keepOpen is set if a helper that fails keeps its stream.
	surveys  []error
	keepOpen bool
	// problem is that of the surveyed directory, named what names the claim, unready is set if the records weren't read.
	problem, named string
	unready        bool
	// bound and made are the claim's binding.
	bound, made    bool
	held, reserved int
	// busySweeps are how many of the next Sweeps aren't started.
	busySweeps int
	// swept receives the Only of each Sweep that was done. Nil: nothing does.
	swept chan string
	// onSurvey, if set, is called before a directory is surveyed.
	onSurvey func()
}

func newNode(t *testing.T) *node {
	t.Helper()
	n := &node{t: t, root: filepath.Join(t.TempDir(), "claims"), before: map[string]error{}, after: map[string]error{}, bound: true, made: true}
	n.write("default/data/old")
	n.Volumes = New(Config{Root: n.root, Helpers: n, Storage: n, Bindings: n, Named: n.namedBy, Log: slog.New(slog.NewTextHandler(&n.logs, nil))})
	n.idle = time.Minute
	return n
}

func (n *node) write(file string) {
	n.t.Helper()
	path := filepath.Join(n.root, file)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte("old"), 0o600)); err != nil {
		n.t.Fatal(err)
	}
}

// content returns the names in the volume; "none": it doesn't exist.
func (n *node) content() string { return n.list(filepath.Join(n.root, "default", "data")) }

// left returns the names in the directory of what is incomplete.
func (n *node) left() string { return n.list(filepath.Join(n.root, ".incomplete")) }

func (n *node) list(dir string) string {
	n.t.Helper()
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return "none"
	}
	if err != nil {
		n.t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return strings.Join(names, " ")
}

// free fails the test unless pods can use the volume.
func (n *node) free() {
	n.t.Helper()
	if n.held != 0 || n.reserved != 0 {
		n.t.Errorf("the volume is held %d times and reserved %d times", n.held, n.reserved)
	}
}

// step records a step, and returns its planted error.
func (n *node) step(name string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.steps = append(n.steps, name)
	return n.before[name]
}

func (n *node) did(name string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Contains(n.steps, name)
}

// Do is part of Helpers.
func (n *node) Do(ctx context.Context, _ string, job foreign.Job) (a foreign.Answer, err error) {
	switch {
	case job.Survey != nil:
		if n.onSurvey != nil {
			n.onSurvey()
		}
		if err := n.step("survey"); err != nil {
			return a, err
		}
		if len(n.surveys) > 0 {
			err, n.surveys = n.surveys[0], n.surveys[1:]
		}
		if err != nil {
			return a, err
		}
		a.Surveyed, err = job.Survey.Do(ctx)
		if n.problem != "" {
			a.Surveyed.Dirs[0].Problem = n.problem
		}
	case job.Remove != nil:
		if err := n.step("remove"); err != nil {
			return a, err
		}
		err = errors.Join(job.Remove.Do(), n.after["remove"])
	case job.Sweep != nil:
		if err := n.step("sweep"); err != nil {
			return a, err
		}
		if n.busySweeps--; n.busySweeps >= 0 {
			return a, &foreign.BusyError{Volume: n.root, PIDs: []int{7}, Claims: true}
		}
		err = job.Sweep.Do()
		if n.swept != nil {
			n.swept <- job.Sweep.Only
		}
	}
	return a, answered(err)
}

// Stream is part of Helpers.
func (n *node) Stream(ctx context.Context, _ string, job foreign.Job, stream *os.File) (foreign.Answer, error) {
	if err := n.step("stream"); err != nil {
		if n.keepOpen {
			n.t.Cleanup(func() { _ = stream.Close() })
		} else {
			_ = stream.Close()
		}
		return foreign.Answer{}, err
	}
	type result struct {
		moved tree.Moved
		err   error
	}
	done := make(chan result, 1)
	go func() {
		var r result
		if job.Export != nil {
			r.moved, r.err = job.Export.Do(stream)
		} else {
			r.moved, r.err = job.Import.Do(ctx, &tree.Unframe{From: stream})
		}
		_ = stream.Close()
		r.err = errors.Join(r.err, n.after["stream"])
		done <- r
	}()
	select {
	case r := <-done:
		return foreign.Answer{Moved: r.moved}, answered(r.err)
	case <-ctx.Done():
		_ = stream.Close()
		<-done
		return foreign.Answer{}, &foreign.AbandonedError{Ended: true, Cause: context.Cause(ctx)}
	}
}

// answered returns an error as a helper's.
func answered(err error) error {
	_, refused := errors.AsType[*tree.RefusedError](err)
	_, abandoned := errors.AsType[*foreign.AbandonedError](err)
	switch {
	case err == nil || abandoned || errors.Is(err, errCrashed):
		return err
	case refused:
		return &foreign.Error{Text: err.Error(), Reason: foreign.Refused}
	case errors.Is(err, tree.ErrMissing):
		return &foreign.Error{Text: err.Error(), Reason: foreign.Missing}
	}
	return &foreign.Error{Text: err.Error()}
}

// Ready is part of Storage.
func (n *node) Ready() bool { return !n.unready }

// Users is part of Storage.
func (n *node) Users(string) map[string][]storage.User {
	return map[string][]storage.User{"default/data": {{UID: "u1", Pod: "default/web"}}}
}

// Reserve is part of Storage.
func (n *node) Reserve(k record.Key) (func(), error) {
	if k != (record.Key{Driver: directory.DriverName, Handle: "default/data"}) {
		n.t.Errorf("%+v is reserved", k)
	}
	if err := n.step("reserve"); err != nil {
		return nil, err
	}
	n.reserved++
	return func() { n.reserved-- }, nil
}

// Hold is part of Bindings.
func (n *node) Hold(directory.Claim, string) (func(), error) {
	if err := n.step("hold"); err != nil {
		return nil, err
	}
	n.held++
	return func() { n.held-- }, nil
}

// HasMade is part of Bindings.
func (n *node) HasMade(directory.Claim) bool { return n.bound && n.made }

// Unmake is part of Bindings.
func (n *node) Unmake(directory.Claim) (func() error, error) {
	if err := n.step("unmake"); err != nil {
		return nil, err
	}
	n.made = false
	return func() error { n.made = true; return nil }, nil
}

// Forget is part of Bindings.
func (n *node) Forget(directory.Claim) error {
	err := n.step("forget")
	n.bound = err != nil
	return err
}

func (n *node) namedBy(directory.Claim) (string, error) { return n.named, n.step("named") }
