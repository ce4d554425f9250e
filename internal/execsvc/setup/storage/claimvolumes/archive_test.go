package claimvolumes

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/podstream/podstream/internal/execsvc/setup/foreign"
)

var limits = Limits{Bytes: 1 << 20, Entries: 100}

// archive returns an archive with a file of this name.
func archive(t *testing.T, name string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	h := &tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o600, Size: 3, Uid: os.Getuid(), Gid: os.Getgid()}
	err := w.WriteHeader(h)
	if err == nil {
		_, err = io.WriteString(w, "new")
	}
	if err := errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// blocked is a receiver that doesn't read, or a sender that sends nothing, until it is released.
type blocked struct{ release chan struct{} }

func (b blocked) Write([]byte) (int, error) {
	<-b.release
	return 0, io.ErrClosedPipe
}

// endless sends zeros until it is closed.
type endless struct{ closed chan struct{} }

func (e endless) Read(p []byte) (int, error) {
	select {
	case <-e.closed:
		return 0, io.ErrClosedPipe
	default:
		return len(p), nil
	}
}

func (e endless) Close() error {
	select {
	case <-e.closed:
	default:
		close(e.closed)
	}
	return nil
}

// TestStalledReceiver: an export to a receiver that doesn't read ends, whether the helper is done or not, while the write goes on.
func TestStalledReceiver(t *testing.T) {
	for name, size := range map[string]int64{"the helper is done": 10, "the helper writes": 4 << 20} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			n.idle = 20 * time.Millisecond
			if err := os.Truncate(filepath.Join(n.root, "default", "data", "old"), size); err != nil {
				t.Fatal(err)
			}
			out := blocked{make(chan struct{})}
			defer close(out.release)
			if _, err := n.Export(t.Context(), data, Limits{}, out); !errors.Is(err, ErrStalled) {
				t.Errorf("%v; want %v", err, ErrStalled)
			}
		})
	}
}

// TestExport: an export has all files, and its errors are the caller's, the receiver's or the helper's.
func TestExport(t *testing.T) {
	n := newNode(t)
	var out bytes.Buffer
	moved, err := n.Export(t.Context(), data, Limits{}, &out)
	if err != nil || moved.Entries != 2 || moved.Bytes != 3 || !bytes.Contains(out.Bytes(), []byte("old")) {
		t.Errorf("%+v, %v", moved, err)
	}
	if _, err := n.Export(t.Context(), data, Limits{Bytes: 2}, io.Discard); err == nil || !strings.Contains(err.Error(), "more than 2") {
		t.Errorf("with a bound: %v", err)
	}
	if _, err := n.Export(t.Context(), data, Limits{}, failing{}); !errors.Is(err, errPlanted) {
		t.Errorf("to a receiver that fails: %v", err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errPlanted)
	if _, err := n.Export(ctx, data, Limits{}, io.Discard); !errors.Is(err, errPlanted) {
		t.Errorf("for a caller that is gone: %v", err)
	}
	n.before["stream"] = &foreign.BusyError{Volume: "v", PIDs: []int{7}}
	if _, err := n.Export(t.Context(), data, Limits{}, io.Discard); err == nil || !strings.Contains(err.Error(), "7") {
		t.Errorf("with too many helpers: %v", err)
	}
	delete(n.before, "stream")
	other := data
	other.Name = "other"
	if _, err := n.Export(t.Context(), other, Limits{}, io.Discard); !errors.Is(err, ErrMissing) {
		t.Errorf("of a missing volume: %v", err)
	}
	if n.did("hold") || n.did("reserve") {
		t.Error("an export keeps pods from the volume")
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errPlanted }

// TestImport: an import replaces the content while no pod can get the volume.
func TestImport(t *testing.T) {
	n := newNode(t)
	moved, err := n.Import(t.Context(), data, limits, true, io.NopCloser(bytes.NewReader(archive(t, "new"))))
	if err != nil || moved.Entries != 1 || moved.Left != "" || n.content() != "new" {
		t.Errorf("%+v, %v; the volume has %s, left is %s", moved, err, n.content(), n.left())
	}
	for range maxReplaced - 1 {
		n.replaced <- ""
	}
	moved, err = n.Import(t.Context(), data, limits, true, io.NopCloser(bytes.NewReader(archive(t, "newer"))))
	if err != nil || moved.Left == "" || n.content() != "newer" {
		t.Errorf("while many are being removed: %+v, %v; the volume has %s", moved, err, n.content())
	}
	if got, want := strings.Join(n.steps, " "), "hold reserve stream hold reserve stream"; got != want {
		t.Errorf("the steps are %s; want %s", got, want)
	}
	n.free()
}

// TestFailedImport: an import that isn't complete, or is refused, changes nothing, leaves nothing, and ends.
func TestFailedImport(t *testing.T) {
	whole := archive(t, "new")
	silent, never := io.Pipe()
	defer never.Close()
	for name, tc := range map[string]struct {
		in    io.ReadCloser
		plant func(*node)
		want  string
	}{
		"a sender that sends nothing": {silent, func(n *node) { n.idle = 20 * time.Millisecond }, ErrStalled.Error()},
		"a sender that breaks off": {
			io.NopCloser(io.MultiReader(bytes.NewReader(whole), errorReader{})), nil, "planted",
		},
		"a hostile archive":       {io.NopCloser(bytes.NewReader(archive(t, "../evil"))), nil, ErrRefused.Error()},
		"an endless archive":      {endless{make(chan struct{})}, nil, ErrRefused.Error()},
		"content":                 {io.NopCloser(bytes.NewReader(whole)), nil, "isn't empty"},
		"a pod uses it":           {io.NopCloser(bytes.NewReader(whole)), func(n *node) { n.before["reserve"] = errPlanted }, "planted"},
		"another request has it":  {io.NopCloser(bytes.NewReader(whole)), func(n *node) { n.before["hold"] = errPlanted }, "planted"},
		"no helper starts":        {endless{make(chan struct{})}, func(n *node) { n.before["stream"] = &foreign.BusyError{PIDs: []int{7}} }, "7"},
		"a killed helper":         {endless{make(chan struct{})}, func(n *node) { n.before["stream"] = errKilled }, "planted"},
		"rest that can't be read": {io.NopCloser(errorReader{}), func(n *node) { n.before["sweep"] = errPlanted }, "planted"},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			if tc.plant != nil {
				tc.plant(n)
			}
			_, err := n.Import(t.Context(), data, limits, name != "content", tc.in)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%v; want %q", err, tc.want)
			}
			if n.content() != "old" || n.left() != "" && n.left() != "none" || errors.Is(err, ErrUnknown) {
				t.Errorf("the volume has %s, left is %s", n.content(), n.left())
			}
			n.free()
		})
	}
}

type errorReader struct{}

func (errorReader) Read([]byte) (int, error) { return 0, errPlanted }

// TestImportOfMissing: an import creates the directory of a claim only if that wasn't created before.
func TestImportOfMissing(t *testing.T) {
	n := newNode(t)
	if err := os.RemoveAll(n.root); err != nil {
		t.Fatal(err)
	}
	if _, err := n.Import(t.Context(), data, limits, true, io.NopCloser(bytes.NewReader(archive(t, "new")))); !errors.Is(err, ErrMissing) || n.content() != "none" {
		t.Errorf("%v; the volume has %s", err, n.content())
	}
	n.made = false
	if _, err := n.Import(t.Context(), data, limits, true, io.NopCloser(bytes.NewReader(archive(t, "new")))); err != nil || n.content() != "new" {
		t.Errorf("before it was created: %v; the volume has %s", err, n.content())
	}
	n.free()
}

// TestUnendedImport: no pod gets a volume whose import may still go on. The call ends, though the helper doesn't read.
func TestUnendedImport(t *testing.T) {
	n := newNode(t)
	n.before["stream"] = errHung
	n.keepOpen = true
	_, err := n.Import(t.Context(), data, limits, true, endless{make(chan struct{})})
	if err == nil || !strings.Contains(err.Error(), "until podexecd starts again") {
		t.Errorf("the error is %v", err)
	}
	if n.held != 1 || n.reserved != 1 {
		t.Errorf("held %d, reserved %d; want both", n.held, n.reserved)
	}
	if _, err := n.Export(t.Context(), data, Limits{}, io.Discard); !errors.Is(err, ErrInUse) || !strings.Contains(err.Error(), "until podexecd starts again") {
		t.Errorf("an export: %v", err)
	}
}

// TestUnsyncedImport: while it isn't certain which content is in place, neither is removed.
func TestUnsyncedImport(t *testing.T) {
	n := newNode(t)
	n.before["stream"] = &foreign.Error{Text: "planted", Reason: foreign.Unsynced}
	if _, err := n.Import(t.Context(), data, limits, true, endless{make(chan struct{})}); err == nil || !strings.Contains(err.Error(), "planted") {
		t.Errorf("the error is %v", err)
	}
	if n.did("sweep") {
		t.Error("a content is removed")
	}
	if n.held != 1 || n.reserved != 1 {
		t.Errorf("held %d, reserved %d; want both: a pod would write to a content that may be gone after a crash", n.held, n.reserved)
	}
	// Which content it has can be looked at, and saved.
	delete(n.before, "stream")
	var out bytes.Buffer
	if _, err := n.Export(t.Context(), data, Limits{}, &out); err != nil || out.Len() == 0 {
		t.Errorf("an export: %v, %d bytes", err, out.Len())
	}
	_, imported := n.Import(t.Context(), data, limits, true, io.NopCloser(bytes.NewReader(archive(t, "new"))))
	_, removed := n.Remove(t.Context(), data)
	for _, err := range []error{imported, removed} {
		if !errors.Is(err, ErrInUse) || !strings.Contains(err.Error(), "until podexecd starts again, as it isn't known") {
			t.Errorf("a change: %v", err)
		}
	}
}

// TestUnansweredImport: the error of an import whose helper ended before its answer says that the volume may have either
// content. The other one is removed once the disk has confirmed which one that is; until then no pod gets the volume.
func TestUnansweredImport(t *testing.T) {
	for name, tc := range map[string]struct {
		helper, sweep error
		held          bool
	}{
		"killed":                       {errKilled, nil, false},
		"without an answer":            {errCrashed, nil, false},
		"killed, on a disk that fails": {errKilled, errPlanted, true},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			n.after["stream"], n.before["sweep"] = tc.helper, tc.sweep
			_, err := n.Import(t.Context(), data, limits, true, io.NopCloser(bytes.NewReader(archive(t, "new"))))
			if !errors.Is(err, ErrUnknown) || strings.Contains(err.Error(), "until podexecd starts again") != tc.held {
				t.Errorf("the error is %v", err)
			}
			if n.content() != "new" || (n.left() != "") != tc.held || (n.held == 1) != tc.held || (n.reserved == 1) != tc.held {
				t.Errorf("the volume has %s, left is %q, held %d, reserved %d", n.content(), n.left(), n.held, n.reserved)
			}
		})
	}
}
