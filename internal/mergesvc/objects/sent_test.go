package objects

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/internal/mergesvc/merge"
)

// broken returns an origin that was never good, and may define any object.
func broken() *manifest.Origin {
	return &manifest.Origin{Name: "broken", Held: true, ObjectsUnknown: true}
}

// opsSince returns the ops that a reader of everything receives after a revision, as "put a, remove b".
func opsSince(t *testing.T, h *Hub, number uint64) string {
	t.Helper()
	var words []string
	for {
		d, kept, _ := h.NewReader(everything()).Next(number)
		if !kept {
			t.Fatalf("revision %d isn't kept", number)
		}
		if d.Number == number {
			return strings.Join(words, ", ")
		}
		number = d.Number
		for _, c := range d.Changes {
			word := map[Op]string{Put: "put ", Remove: "remove ", Absent: "missing "}[c.Op] + c.Ref.Name
			if c.Unsent {
				word += " untold"
			}
			words = append(words, word)
		}
	}
}

// TestDrop: the removal of a source's pods removes its objects, even if no reader has received them yet.
func TestDrop(t *testing.T) {
	pods, h := newHubs(Config{})
	h.Apply(set("file", []*manifest.Pod{user("web", "n1", "x", "a", "b")}, secret("a", "1")))
	at := h.Number()
	pods.Configure([]merge.Source{{Name: "api"}})
	h.Drop("file")
	h.Drop("unknown")
	if got := opsSince(t, h.Hub, at); got != "remove a, remove b" {
		t.Errorf("the ops are %q; want that a and b, which were told, aren't needed any more", got)
	}
	if len(h.sources["file"].reported) > 0 || h.sources["file"].defined != nil {
		t.Error("what the source sent is still there")
	}
}

// TestDropWithPods: for pods that stay, the objects of a removed source keep their values, and no change is
// sent.
func TestDropWithPods(t *testing.T) {
	_, h := newHubs(Config{})
	web := []*manifest.Pod{user("web", "n1", "x", "a", "b")}
	h.Apply(set("file", web, secret("a", "1")))
	at := h.Number()
	h.Drop("file")
	if got, ops := h.Current(everything()).text(), opsSince(t, h.Hub, at); got != "a=1 b-" || ops != "" {
		t.Errorf("there is %q with ops %q; want the earlier objects", got, ops)
	}
	h.Apply(set("file", nil))
	if got := opsSince(t, h.Hub, at); got != "remove a, remove b" {
		t.Errorf("the ops are %q; want that a and b aren't needed any more", got)
	}
}

// TestUnknownIsNoNews: a reported value stays while its source can't be read, so that its removal is sent, and
// nothing twice.
func TestUnknownIsNoNews(t *testing.T) {
	_, h := newHubs(Config{})
	web, db := user("web", "n1", "x", "a", "b"), user("db", "n1", "x", "c")
	h.Apply(set("file", []*manifest.Pod{web}, secret("a", "1")))
	at := h.Number()
	doubtful := func(pods []*manifest.Pod, objects ...*manifest.Object) manifest.Set {
		s := set("file", pods, objects...)
		s.Origins = append(s.Origins, broken())
		return s
	}
	h.Apply(doubtful([]*manifest.Pod{web}))
	h.Apply(doubtful([]*manifest.Pod{web, db}))
	if got, ops := h.Current(everything()).text(), opsSince(t, h.Hub, at); got != "a=1 b- c?" || ops != "" {
		t.Errorf("there is %q with ops %q; want no change", got, ops)
	}
	h.Apply(set("file", []*manifest.Pod{web, db}, secret("a", "1"), secret("c", "1")))
	if ops := opsSince(t, h.Hub, at); ops != "put c" {
		t.Errorf("the ops are %q; want c alone, as a and b are what they were", ops)
	}
	h.Apply(doubtful([]*manifest.Pod{web, db}))
	at = h.Number()
	h.Apply(doubtful(nil))
	if ops := opsSince(t, h.Hub, at); ops != "remove a, remove b, remove c" {
		t.Errorf("the ops are %q; want the end of all that was sent", ops)
	}
	// No pod referred to it meanwhile, so its value is unknown.
	h.Apply(doubtful([]*manifest.Pod{web}))
	if got := h.Current(everything()).text(); got != "a? b?" {
		t.Errorf("there is %q; want nothing known", got)
	}
}

// TestBrokenPodLeavesObjectsKnown: an origin that was never good leaves missing objects unknown only if it may define
// objects.
func TestBrokenPodLeavesObjectsKnown(t *testing.T) {
	_, h := newHubs(Config{})
	s := set("file", []*manifest.Pod{user("web", "n1", "x", "a")})
	bad := broken()
	bad.ObjectsUnknown = false
	s.Origins = append(s.Origins, bad)
	h.Apply(s)
	if got := h.Current(everything()).text(); got != "a-" {
		t.Errorf("beside a broken pod there is %q; want a missing", got)
	}
	again := set("file", []*manifest.Pod{user("web", "n1", "x", "b")})
	again.Origins = append(again.Origins, broken())
	h.Apply(again)
	if got := h.Current(everything()).text(); got != "b-" {
		t.Errorf("beside an origin that is known to define no objects there is %q; want b missing", got)
	}
}

// TestMissingIsLogged: an object that doesn't exist is logged once, whether its pod or its absence is first.
func TestMissingIsLogged(t *testing.T) {
	var log strings.Builder
	_, h := newHubs(Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	h.Apply(set("file", nil))
	web, changed := user("web", "n1", "x", "a"), user("web", "n1", "y", "a")
	changed.SpecDigest = "another"
	h.Apply(set("file", []*manifest.Pod{web}))
	h.Apply(set("file", []*manifest.Pod{changed, user("db", "n1", "x", "a")}))
	if n := strings.Count(log.String(), `"pods refer to an object that doesn't exist" object="Secret default/a" source=file`); n != 1 {
		t.Errorf("%d lines report that a is missing; want 1:\n%s", n, log.String())
	}
	h.Apply(set("file", nil))
	h.Apply(set("file", []*manifest.Pod{web}))
	if n := strings.Count(log.String(), "doesn't exist"); n != 2 {
		t.Errorf("%d lines report that a is missing, although a pod refers to it again; want 2:\n%s", n, log.String())
	}
}

// TestUnreferredEdits: of an object without references only one value is kept. Values from the time of a
// removed pod count for the ring.
func TestUnreferredEdits(t *testing.T) {
	_, h := newHubs(Config{Bytes: 4 << 20})
	large := func(i int) *manifest.Object { return secret("a", strings.Repeat(fmt.Sprint(i%10), 500<<10)) }
	web := []*manifest.Pod{user("web", "n1", "x", "a")}
	h.Apply(set("file", web, large(0)))
	h.Apply(set("file", nil, large(0)))
	if h.bytes < 500<<10 {
		t.Errorf("%d bytes count; want those of the value that only the ring needs", h.bytes)
	}
	at := h.Number()
	for i := range 20 {
		h.Apply(set("file", nil, large(i)))
	}
	if n := len(h.sources["file"].entries[key("a")].values); n > 2 {
		t.Errorf("%d values are kept without a reference; want the one that a reader saw, and the last", n)
	}
	if snapshot, _ := h.At(at-1, everything()); len(snapshot.Items) != 1 || snapshot.Items[0].Object.Digest() != large(0).Digest {
		t.Errorf("before it went there is said to have been %v", snapshot.Items)
	}
	// Each has a different object.
	for i := range 20 {
		name := fmt.Sprint("s", i)
		own := secret(name, strings.Repeat("x", 500<<10))
		h.Apply(set("file", []*manifest.Pod{user(name, "n1", "x", name)}, own))
		h.Apply(set("file", nil))
	}
	if n := len(h.sources["file"].entries); h.bytes > 4<<20 || n > 4 {
		t.Errorf("%d bytes and %d objects are kept; want some 4 MiB", h.bytes, n)
	}
	h.Apply(set("file", web, large(0)))
	if got := h.Current(everything()).text(); got != "a="+strings.Repeat("0", 500<<10) {
		t.Errorf("there is %.20q; want a as it is now", got)
	}
}

// TestSourceLimits: objects over the limits of a source aren't used, and don't affect the used ones.
func TestSourceLimits(t *testing.T) {
	for name, cfg := range map[string]Config{"objects": {SourceObjects: 2}, "bytes": {SourceBytes: 3 << 20}} {
		t.Run(name, func(t *testing.T) {
			_, h := newHubs(cfg)
			web := []*manifest.Pod{user("web", "n1", "x", "a", "b", "c")}
			value := strings.Repeat("v", 1<<20)
			h.Apply(set("file", web, secret("b", value)))
			states := []merge.SourceState{{Source: merge.Source{Name: "file"}}}
			if got := h.WithFindings(states)[0].Findings; len(got) > 0 {
				t.Errorf("findings %v; want none", got)
			}
			crowd := &manifest.Origin{Name: "crowd", Objects: []*manifest.Object{secret("a", value), secret("c", value)}}
			s := set("file", web, secret("b", value))
			s.Origins = append([]*manifest.Origin{crowd}, s.Origins...)
			h.Apply(s)
			if got := strings.ReplaceAll(h.Current(everything()).text(), value, "1"); got != "a=1 b=1 c-" {
				t.Errorf("there is %q; want b, which was there, and the first of the others", got)
			}
			got := h.WithFindings(states)[0].Findings
			if len(got) != 1 || got[0].Origin != "crowd" || got[0].Severity != manifest.Error || !strings.HasPrefix(got[0].Message, "objects that aren't used: 1;") {
				t.Errorf("findings %+v; want one of the crowd", got)
			}
			s = set("file", web, secret("b", value), secret("c", value))
			h.Apply(s)
			if got := strings.ReplaceAll(h.Current(everything()).text(), value, "1"); got != "a- b=1 c=1" {
				t.Errorf("there is %q; want both, once there is room", got)
			}
		})
	}
}
