package objects

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/internal/mergesvc/merge"
	"github.com/podstream/podstream/internal/mergesvc/revision"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// TestRun: Run follows changes of the pods' history that didn't come through an Intake.
func TestRun(t *testing.T) {
	pods, h := newHubs(Config{})
	runHub(t, h.Hub)
	number := h.Number()
	_, _, more := h.NewReader(everything()).Next(number)
	pods.Apply(set("file", []*manifest.Pod{user("web", "n1", "x", "a")}))
	select {
	case <-more:
	case <-time.After(deadline):
		t.Fatal("the Hub doesn't follow the pods")
	}
	if got := h.Current(everything()).text(); got != "a?" {
		t.Errorf("there is %q; want a, which is unknown", got)
	}
}

// TestFirstDefinitionCounts: of two objects with one name the first by origin and document is used; the other one
// gets a finding.
func TestFirstDefinitionCounts(t *testing.T) {
	var log strings.Builder
	_, h := newHubs(Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	web := []*manifest.Pod{user("web", "n1", "x", "a")}
	second := *secret("a", "3")
	second.Document = 2
	s := set("file", web, secret("a", "1"), secret("a", "2"))
	s.Origins = append(s.Origins, &manifest.Origin{Name: "z", Objects: []*manifest.Object{&second}})
	h.Apply(s)
	if got := h.Current(everything()).text(); got != "a=1" {
		t.Errorf("there is %q; want the first of the first origin", got)
	}
	states := []merge.SourceState{{Source: merge.Source{Name: "api"}}, {Source: merge.Source{Name: "file"}, Findings: []merge.Finding{{Origin: "x"}}}}
	got := h.WithFindings(states)
	if len(states[1].Findings) != 1 || len(got[0].Findings) != 0 || len(got[1].Findings) != 3 {
		t.Fatalf("the findings are %+v; want two more for file", got)
	}
	for i, want := range []string{"an earlier document has one too", "objects has one too, and comes first"} {
		f := got[1].Findings[i+1]
		if f.Severity != manifest.Warning || !strings.Contains(f.Message, "Secret default/a isn't used: "+want) ||
			strings.Contains(f.Redacted().Message, "default") {
			t.Errorf("finding %d is %+v; want %q", i, f, want)
		}
	}
	h.Apply(s)
	h.Apply(set("file", web, secret("a", "1"), secret("a", "2")))
	if n := strings.Count(log.String(), "object isn't used"); n != 2 {
		t.Errorf("%d lines report unused objects; want 2:\n%s", n, log.String())
	}
	h.Apply(set("file", web, secret("a", "2")))
	if got := h.WithFindings(states); len(got[1].Findings) != 1 {
		t.Errorf("findings that are over: %+v", got[1].Findings[1:])
	}
}

// TestOrderOfApply: new objects are published before the pods that need them, and removed ones after them.
func TestOrderOfApply(t *testing.T) {
	pods, h := newHubs(Config{})
	var during []string
	h.podHub = applyFunc(func(s manifest.Set) {
		h.mu.RLock()
		defined := h.source("file").defined[key("a")] != nil
		h.mu.RUnlock()
		during = append(during, fmt.Sprint(h.Current(everything()).text(), " ", defined))
		pods.Apply(s)
	})
	h.Apply(set("file", []*manifest.Pod{user("web", "n1", "x", "a")}, secret("a", "1")))
	h.Apply(set("file", nil))
	if got := strings.Join(during, ", "); got != " true, a=1 false" {
		t.Errorf("while the pods are merged there is %q; want the object before its pod, and until after it", got)
	}
	failed := set("file", nil)
	failed.Err = fmt.Errorf("gone")
	h.Apply(set("file", []*manifest.Pod{user("web", "n1", "x", "a")}, secret("a", "1")))
	h.Apply(failed)
	if got := h.Current(everything()).text(); got != "a=1" {
		t.Errorf("after a failed reading there is %q; want the earlier objects", got)
	}
}

// applyFunc is a hub of pods.
type applyFunc func(manifest.Set)

func (f applyFunc) Apply(s manifest.Set) { f(s) }

// TestBytes: the ring is bounded by the size of the values that only the ring keeps.
func TestBytes(t *testing.T) {
	_, h := newHubs(Config{Bytes: 4 << 20})
	web := []*manifest.Pod{user("web", "n1", "x", "a")}
	for i := range 20 {
		h.Apply(set("file", web, secret("a", strings.Repeat(fmt.Sprint(i%10), 500<<10))))
	}
	if h.bytes > 4<<20 || len(h.recent) < 2 || len(h.recent) > 4 || len(h.sources["file"].entries[key("a")].values) > len(h.recent)+1 {
		t.Errorf("%d revisions with %d bytes and %d values are kept; want some 4 MiB", len(h.recent), h.bytes,
			len(h.sources["file"].entries[key("a")].values))
	}
}

// TestFollow: each set of wanted objects replaces the previous one; Follow ends with its context, and with run.
func TestFollow(t *testing.T) {
	_, h := newHubs(Config{})
	runHub(t, h.Hub)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	sets := make(chan string)
	running.Go(func() {
		err := h.Follow(ctx, "api", func(ctx context.Context, wanted <-chan []manifest.ObjectKey, _ func(manifest.ObjectKey, *manifest.Object)) error {
			for {
				select {
				case keys := <-wanted:
					select {
					case sets <- fmt.Sprint(keys):
					case <-ctx.Done():
					}
				case <-ctx.Done():
					return context.Cause(ctx)
				}
			}
		})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("Follow ends with %v; want the error of the function that it ran", err)
		}
	})
	await := func(want string) {
		t.Helper()
		timeout := time.After(deadline)
		for {
			select {
			case got := <-sets:
				if got == want {
					return
				}
			case <-timeout:
				t.Fatalf("the source isn't given %q", want)
			}
		}
	}
	await("[]")
	// While the source handles one set, many others replace each other.
	for i := range 100 {
		h.Apply(set("api", []*manifest.Pod{user("web", "n1", "x", fmt.Sprint("s", i))}))
	}
	await("[Secret default/s99]")
	h.Apply(set("api", nil))
	await("[]")
	cancel()
	running.Wait()
}

// TestEncode: an object is encoded once for each format. An unknown format is an error.
func TestEncode(t *testing.T) {
	o := newObject(Ref{"file", key("a")}, secret("a", "hunter2"))
	first, err := o.Encode(podconfigv1.PodFormat_POD_FORMAT_JSON)
	second, _ := o.Encode(podconfigv1.PodFormat_POD_FORMAT_UNSPECIFIED)
	if err != nil || &first[0] != &second[0] {
		t.Errorf("JSON is encoded twice, or not at all: %v", err)
	}
	if _, err := o.Encode(99); err == nil {
		t.Error("a format that isn't known is encoded")
	}
}

// BenchmarkNext measures the cost of a change to one reader of a thousand, on its node and on another one.
func BenchmarkNext(b *testing.B) {
	for _, tc := range []struct{ name, node string }{{"its node", "n7"}, {"another node", "n8"}} {
		b.Run(tc.name, func(b *testing.B) {
			pods, h := newHubs(Config{})
			var all []*manifest.Pod
			for i := range 20_000 {
				all = append(all, user(fmt.Sprint("p", i), fmt.Sprint("n", i%1000), "x", "shared", fmt.Sprint("own", i)))
			}
			pods.Apply(set("file", all))
			h.Advance()
			pods.Apply(set("file", append(all, user("new", tc.node, "x", "shared", "fresh"))))
			h.Advance()
			scope := Scope{Nodes: []string{"n7"}, Match: func(*revision.Pod) bool { return true }}
			at, reader := h.Number()-1, h.NewReader(scope)
			for b.Loop() {
				reader.Next(at)
			}
		})
	}
}
