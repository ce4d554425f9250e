package profile

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"
)

// TestProfiles: each profile is one in its format. One is written at a time; a profile that is stopped has the error, and
// leaves room for the next.
func TestProfiles(t *testing.T) {
	for _, name := range []string{"heap", "allocs", "goroutine", "threadcreate", "block", "mutex", CPU, Trace} {
		var out bytes.Buffer
		if err := Write(t.Context(), &out, name, 10*time.Millisecond); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if name == Trace {
			if !strings.HasPrefix(out.String(), "go 1.") {
				t.Errorf("the trace begins with %.20q", out.String())
			}
			continue
		}
		r, err := gzip.NewReader(&out)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if data, err := io.ReadAll(r); err != nil || len(data) == 0 {
			t.Errorf("%s has %d bytes, %v", name, len(data), err)
		}
	}
}

func TestProfileErrors(t *testing.T) {
	for name, tc := range map[string]struct {
		name string
		d    time.Duration
		want error
	}{
		"unknown":  {"nothing", 0, ErrUnknown},
		"a path":   {"../heap", 0, ErrUnknown},
		"negative": {CPU, -1, ErrDuration},
		"too long": {CPU, MaxDuration + 1, ErrDuration},
	} {
		if err := Write(t.Context(), io.Discard, tc.name, tc.d); !errors.Is(err, tc.want) {
			t.Errorf("%s: %v; want %v", name, err, tc.want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	began, ended := make(chan struct{}), make(chan error)
	go func() { ended <- Write(ctx, beginning{began}, Trace, time.Minute) }()
	<-began
	if err := Write(t.Context(), io.Discard, "heap", 0); !errors.Is(err, ErrBusy) {
		t.Errorf("beside another one: %v; want ErrBusy", err)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("one that is stopped: %v", err)
	}
	if err := Write(t.Context(), io.Discard, "heap", 0); err != nil {
		t.Errorf("after it: %v", err)
	}
	broken := errors.New("broken")
	if err := Write(t.Context(), failing{broken}, CPU, time.Millisecond); !errors.Is(err, broken) {
		t.Errorf("a writer that fails: %v", err)
	}
	w := &boundedWriter{w: io.Discard, left: 3}
	if _, err := w.Write(make([]byte, 2)); err != nil {
		t.Errorf("within the bound: %v", err)
	}
	if _, err := w.Write(make([]byte, 2)); !errors.Is(err, errSize) {
		t.Errorf("beyond the bound: %v", err)
	}
}

// beginning closes a channel at the first Write.
type beginning struct{ began chan struct{} }

func (b beginning) Write(p []byte) (int, error) {
	select {
	case <-b.began:
	default:
		close(b.began)
	}
	return len(p), nil
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }
