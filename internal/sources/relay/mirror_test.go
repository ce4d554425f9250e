package relay

import (
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/podstream/podstream/client/stream"
	"github.com/podstream/podstream/internal/manifest"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// testMirror returns a mirror that has these pods of the source file, and has handed them over.
func testMirror(t *testing.T, pods ...*podconfigv1.Pod) *mirror {
	t.Helper()
	cfg, err := Config{Endpoint: "unix:///s", ID: "own-id", Node: "own-node"}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	m := newMirror(cfg, nil)
	take(t, m, &stream.Revision{
		Updates: []*podconfigv1.PodUpdate{update(add, pods...)}, Synced: &podconfigv1.Synced{Sources: ready("file")}, Cursor: cursor(1),
	})
	m.origins()
	return m
}

func update(op podconfigv1.PodOperation, pods ...*podconfigv1.Pod) *podconfigv1.PodUpdate {
	return &podconfigv1.PodUpdate{Op: op, Source: "file", SourceReady: true, Pods: pods}
}

func take(t *testing.T, m *mirror, r *stream.Revision) {
	t.Helper()
	if err := m.apply(r); err != nil {
		t.Fatal(err)
	}
}

func beat(names ...string) *stream.Revision {
	return &stream.Revision{Heartbeat: &podconfigv1.Heartbeat{Sources: ready(names...)}}
}

// manyPods returns pods in mergetest's notation, with these arguments.
func manyPods(n int, args string) []*podconfigv1.Pod {
	out := make([]*podconfigv1.Pod, n)
	for i := range out {
		out[i] = wirePod(fmt.Sprintf("p%d(%s)", i, args))
	}
	return out
}

// TestHeartbeatsDontPileUp: while revisions wait, one heartbeat between two of them is kept. Everything that
// waits is counted.
func TestHeartbeatsDontPileUp(t *testing.T) {
	q, large := newQueue(), strings.Repeat("x", 1<<20)
	ops := &stream.Revision{Updates: []*podconfigv1.PodUpdate{update(add, wirePod("web()"))}, Cursor: cursor(2)}
	for i := range 100 {
		if q.put(beat(large+fmt.Sprint(i)), nil) {
			t.Fatalf("after %d heartbeats of 1 MiB %d bytes wait", i+1, q.bytes)
		}
	}
	q.put(ops, nil)
	q.put(beat("file"), nil)
	q.put(beat("api"), nil)
	q.put(&stream.Revision{Synced: &podconfigv1.Synced{}, Cursor: cursor(3)}, nil)
	got, err := q.take(t.Context())
	if err != nil || len(got) != 4 || got[0].Sources()[0].GetName() != large+"99" || got[1] != ops || got[2].Sources()[0].GetName() != "api" {
		t.Errorf("%d revisions wait, %v; want the last heartbeat, the ops, the last heartbeat, and synced", len(got), err)
	}
	full := false
	for range 5 {
		full = q.put(&stream.Revision{Synced: &podconfigv1.Synced{Sources: ready(large)}, Cursor: cursor(3)}, nil)
	}
	if !full {
		t.Errorf("5 lists of sources of 1 MiB count as %d bytes", q.bytes)
	}
}

// TestUnreadySourcesAreDropped: nothing is kept of sources that the upstream no longer has, even if no source
// was ever ready.
func TestUnreadySourcesAreDropped(t *testing.T) {
	m := testMirror(t)
	for i := range 100 {
		take(t, m, beat(fmt.Sprintf("-a%d", i), fmt.Sprintf("-b%d", i)))
		m.origins()
	}
	now, _ := m.origins()
	if got := origins(manifest.Set{Origins: now}); len(m.unready) != 2 || got != "a99 (not ready upstream)!, b99 (not ready upstream)!" {
		t.Errorf("%d are kept, and the origins are %s", len(m.unready), got)
	}
	if again, _ := m.origins(); again[0] != now[0] || !now[0].Unready {
		t.Error("an unready source's origin is another one each time, or doesn't say that it is unready")
	}
}

// TestBrokenPodIsAskedForAgain: a pod that couldn't be used isn't sent to the upstream as a known pod until a
// usable version arrives. A pod that is too large counts as usable.
func TestBrokenPodIsAskedForAgain(t *testing.T) {
	s, endpoint := scripted(t)
	bad := changed("web()", func(p *podconfigv1.Pod) { p.Content = &podconfigv1.Pod_Protobuf{Protobuf: []byte{0xff}} })
	s.pods <- saying(errBroken, op(1, add, bad, wirePod("db()"), wirePod("large(pad=1600)")), synced(1))
	s.pods <- saying(errBroken, op(1, podconfigv1.PodOperation_POD_OPERATION_UPDATE, wirePod("web()")), synced(1))
	s.pods <- saying(nil, synced(1))
	r := relay(t, nil, Config{Endpoint: endpoint})
	for i, want := range []string{
		"file default/db db, file default/large large!, file default/web web!",
		"file default/db db, file default/large large!, file default/web web",
		"file default/db db, file default/large large!, file default/web web",
	} {
		if got := origins(r.good()); got != want {
			t.Errorf("of stream %d the origins are %s; want %s", i, got, want)
		}
	}
	<-s.requests
	for i, broken := range []bool{true, false} {
		req := <-s.requests
		if (req.GetResumeAfter() == nil) != broken || known(req) != "file:db file:large file:web" {
			t.Errorf("stream %d is asked for after %v, with %s", i+1, req.GetResumeAfter(), known(req))
		}
		for _, k := range req.GetKnownPods() {
			if empty := broken && k.GetUid() == "web"; (k.GetSpecDigest() == "") != empty || (k.GetStatusDigest() == "") != empty {
				t.Errorf("stream %d is requested with %v; want no digests of pods that are only broken", i+1, k)
			}
		}
	}
}

// TestBrokenAmongTooMany: if there are too many pods for known_pods, a broken one is requested again with a
// cursor that can't be resumed from.
func TestBrokenAmongTooMany(t *testing.T) {
	m := testMirror(t, changed("web()", func(p *podconfigv1.Pod) { p.Content = nil }))
	if got := m.again(&podconfigv1.WatchPodUpdatesRequest{ResumeAfter: cursor(7)}).GetResumeAfter(); got == nil || got.GetInstanceId() != "" {
		t.Errorf("it is asked for after %v; want the empty cursor", got)
	}
}

// TestRefusedPodsAreReadOnce: a rejected pod costs a set only its place.
func TestRefusedPodsAreReadOnce(t *testing.T) {
	const pods = 200
	refused := manyPods(pods, "pad=1")
	for _, p := range refused {
		object, err := decode(p)
		if err != nil {
			t.Fatal(err)
		}
		object.Annotations[manifest.RelayPathAnnotation] = "own-node(own-id)/file"
		data, err := object.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		p.Content = &podconfigv1.Pod_Protobuf{Protobuf: data}
	}
	m := testMirror(t, refused...)
	if n := testing.AllocsPerRun(10, func() { m.origins() }); n > pods/2 {
		t.Errorf("a set with %d refused pods makes %.0f allocations", pods, n)
	}
	before, _ := m.origins()
	take(t, m, beat("-file"))
	held, _ := m.origins()
	take(t, m, beat("file"))
	after, _ := m.origins()
	if before[0].Held || !held[0].Held || after[0].Held || len(after) != pods || len(after[0].Pods) > 0 {
		t.Errorf("a refused pod is held: %v; %v while its source isn't ready; %v after; %d origins", before[0].Held, held[0].Held, after[0].Held, len(after))
	}
}

// TestManySmallRevisions: the cost of a revision doesn't depend on the number of revisions that are passed on
// together.
func TestManySmallRevisions(t *testing.T) {
	const pods = 4000
	all := manyPods(pods, "")
	m := testMirror(t, all...)
	var before, after runtime.MemStats
	for i, p := range all {
		if i == pods-100 {
			runtime.ReadMemStats(&before)
		}
		take(t, m, &stream.Revision{Updates: []*podconfigv1.PodUpdate{update(podconfigv1.PodOperation_POD_OPERATION_REMOVE, p)}, Cursor: cursor(uint64(i + 2))})
	}
	runtime.ReadMemStats(&after)
	if each := (after.TotalAlloc - before.TotalAlloc) / 100; each > 32<<10 {
		t.Errorf("the last of %d revisions take %d bytes each", pods, each)
	}
	take(t, m, &stream.Revision{Updates: []*podconfigv1.PodUpdate{update(add, all[7])}, Cursor: cursor(pods + 2)})
	if now, remade := m.origins(); len(now) != 1 || len(remade) != 1 || !remade[now[0].Name] {
		t.Errorf("a removed pod was added again: %d origins, remade %v", len(now), remade)
	}
}

// TestOneReasonIsLoggedOnce: connections from different ports have the same reason.
func TestOneReasonIsLoggedOnce(t *testing.T) {
	source, err := New(Config{Endpoint: "unix:///s", ID: "i", Node: "n", Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	f := &follower{Source: source, out: func(s manifest.Set) { got = append(got, s.Err.Error()) }}
	reset := func(port int) error {
		return status.Errorf(codes.Unavailable, "error reading server preface: read tcp 127.0.0.1:%d->127.0.0.1:443: connection reset by peer", port)
	}
	for _, err := range []error{reset(40001), reset(40002), status.Error(codes.Unavailable, "error reading server preface: EOF"), reset(40003)} {
		f.lost(err)
	}
	if len(got) != 3 || !strings.Contains(got[0], "127.0.0.1:40001->") || !strings.Contains(got[1], "EOF") {
		t.Errorf("the errors are\n%s\nwant the first, the third and the fourth", strings.Join(got, "\n"))
	}
}
