package service_test

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"
	"weak"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"github.com/podstream/podstream/internal/access"
	"github.com/podstream/podstream/internal/mergesvc/objects"
	"github.com/podstream/podstream/internal/mergesvc/revision"
	"github.com/podstream/podstream/internal/mergesvc/wire"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// gatedObjects is a consumer of objects that reads when the test allows it.
type gatedObjects struct {
	*gatedStream
	t *testing.T
}

func (g *gatedObjects) Send(m *podconfigv1.WatchObjectsResponse) error { return g.SendMsg(m) }

func (n *objectNode) gatedObjects(req *podconfigv1.WatchObjectsRequest) *gatedObjects {
	ctx, cancel := context.WithCancel(access.NewContext(
		context.Background(), access.Caller{Identity: "uid:0", Role: access.Consumer}))
	g := &gatedObjects{newGatedStream(ctx), n.t}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = n.svc.WatchObjects(req, g)
	}()
	n.t.Cleanup(func() {
		cancel()
		<-ended
	})
	return g
}

// waits returns the message that the consumer reads next, without reading it.
func (g *gatedObjects) waits() *podconfigv1.WatchObjectsResponse {
	g.t.Helper()
	data, err := wire.NewCodec().Marshal(<-g.entered)
	if err != nil {
		g.t.Fatal(err)
	}
	out := &podconfigv1.WatchObjectsResponse{}
	if err := proto.Unmarshal(data.Materialize(), out); err != nil {
		g.t.Fatal(err)
	}
	return out
}

func (g *gatedObjects) take() { g.gate <- struct{}{} }

// large returns a value of more than a quarter of a MiB that starts with the text.
func large(text string) string { return text + strings.Repeat(" ", 300<<10) }

// values gives the ConfigMaps c0, c1, … values, all in one origin with a pod that refers to them.
func (n *objectNode) values(values ...string) {
	var refs []string
	content := []any{}
	for i, v := range values {
		refs = append(refs, fmt.Sprint("cm/c", i))
		content = append(content, object(refs[i], v))
	}
	n.apply("file", from("o", append(content, user("web", "n1", refs...))...))
}

// everywhere is the scope of a consumer that sees everything.
var everywhere = objects.Scope{Match: func(*revision.Pod) bool { return true }}

// versions returns weak pointers to the current versions of all objects.
func (n *objectNode) versions() []weak.Pointer[objects.Object] {
	var out []weak.Pointer[objects.Object]
	for _, item := range n.objects.Current(everywhere).Items {
		out = append(out, weak.Make(item.Object))
	}
	return out
}

// collected waits until none of the versions is in memory.
func collected[T any](t *testing.T, versions []weak.Pointer[T]) {
	t.Helper()
	until(t, "the dropped versions are collected", func() bool { return alive(versions) == 0 })
}

// TestG8StalledObjects: consumers of objects that stop reading in the middle of a catch-up, or of a large
// revision, keep no version of an object that the ring has dropped, and in a message at most a quarter of a MiB
// and one object.
func TestG8StalledObjects(t *testing.T) {
	const stalled, count = 8, 6
	n := startObjects(t, 4, options{})
	n.apply("api")
	all := func(text string) []string {
		values := make([]string, count)
		for i := range values {
			values[i] = large(text)
		}
		return values
	}
	n.values(all("0")...)
	at := n.watchObjects(&podconfigv1.WatchObjectsRequest{}).unit().cursor
	var old []weak.Pointer[objects.Object]
	for k := range stalled {
		n.values(all(fmt.Sprint("first ", k))...)
		old = append(old, n.versions()...)
		for _, req := range []*podconfigv1.WatchObjectsRequest{{}, resumed(at), resumed(at, heldObjects("cm/c0=1", "cm/gone=1")...)} {
			if m := n.gatedObjects(req).waits(); len(m.GetUpdate().GetObjects()) > 1 {
				t.Fatalf("the first message has %d objects; want one or none", len(m.GetUpdate().GetObjects()))
			}
		}
		live := n.gatedObjects(&podconfigv1.WatchObjectsRequest{})
		for live.waits().GetSynced() == nil {
			live.take()
		}
		live.take()
		n.values(all(fmt.Sprint("live ", k))...)
		live.waits()
		old = append(old, n.versions()...)
	}
	for i := range 20 {
		n.values(fmt.Sprint(i))
	}
	collected(t, old)
}

// TestObjectsPassed: a consumer of objects that reads again after the ring has dropped the revision of its unit
// never receives a REMOVE for an existing object, and has the final state at the end. The cursor of the unit
// can't be resumed from.
func TestObjectsPassed(t *testing.T) {
	for name, then := range map[string][]string{
		"changed": {large("1"), large("2"), large("3"), large("4")}, "the last are gone": {large("1"), large("0")}, "one came": {"1", "2", "3", "4", "5"},
	} {
		for _, when := range []string{"fresh", "with known objects", "live"} {
			t.Run(name+", "+when, func(t *testing.T) {
				n := startObjects(t, 2, options{})
				n.apply("api")
				begin := []string{large("0"), large("0"), large("0"), large("0")}
				n.values(begin...)
				req := &podconfigv1.WatchObjectsRequest{}
				if when == "with known objects" {
					req = resumed(nil, heldObjects("cm/c0=1", "cm/c9=1")...)
				}
				g := n.gatedObjects(req)
				m := g.waits()
				held := map[string]string{}
				if when == "live" {
					g.apply(m, held, func(m *podconfigv1.WatchObjectsResponse) bool { return m.GetSynced() != nil })
					n.values(large("live"), large("live"), large("live"), large("live"))
					m = g.waits()
				}
				old := n.versions()
				for i := range 4 {
					n.values(fmt.Sprint("a", i), fmt.Sprint("a", i), "", "", "", "")
				}
				n.values(then...)
				n.values(append(then[:len(then):len(then)], "extra")...)
				n.values(then...)
				collected(t, old)
				var first *podconfigv1.Cursor
				g.apply(m, held, func(m *podconfigv1.WatchObjectsResponse) bool {
					if first == nil {
						first = m.GetCursor()
					}
					return m.GetCursor() != nil && m.GetCursor().GetRevision() == n.objects.Number()
				})
				want := map[string]string{}
				for _, item := range n.objects.Current(everywhere).Items {
					want[item.Ref.Name] = item.Object.Digest()
				}
				if diff := cmp.Diff(want, held); diff != "" {
					t.Errorf("what the consumer holds (-want +got):\n%s", diff)
				}
				if first.GetRevision() < n.objects.Number() {
					if got := n.watchObjects(resumed(first)).unit().messages[0].GetUpdate().GetOp(); got != podconfigv1.ObjectOperation_OBJECT_OPERATION_SET {
						t.Errorf("a stream from the cursor of the unit starts with %v; want a SET", got)
					}
				}
			})
		}
	}
}

// apply reads messages, the first of which waits, up to the last one, and applies them to held, the digests by
// name.
func (g *gatedObjects) apply(
	m *podconfigv1.WatchObjectsResponse, held map[string]string, last func(*podconfigv1.WatchObjectsResponse) bool,
) {
	var set map[string]string
	for ; ; m = g.waits() {
		for _, o := range m.GetUpdate().GetObjects() {
			switch m.GetUpdate().GetOp() {
			case podconfigv1.ObjectOperation_OBJECT_OPERATION_SET:
				if set == nil {
					set = map[string]string{}
				}
				set[o.GetRef().GetName()] = o.GetDigest()
			case podconfigv1.ObjectOperation_OBJECT_OPERATION_PUT:
				held[o.GetRef().GetName()] = o.GetDigest()
			default:
				delete(held, o.GetRef().GetName())
			}
		}
		if m.GetCursor() != nil && set != nil {
			clear(held)
			maps.Copy(held, set)
			set = nil
		}
		if m.GetCursor() != nil && held["c1"] == "" {
			g.t.Errorf("at %v the consumer holds %v; want c1 too, which always exists", m.GetCursor(), held)
		}
		g.take()
		if last(m) {
			return
		}
	}
}
