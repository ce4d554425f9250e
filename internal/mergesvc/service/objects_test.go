package service_test

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/clocktest"
	"github.com/podstream/podstream/internal/logtest"
	"github.com/podstream/podstream/internal/mergesvc/service"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// TestObjectsLife follows one consumer through all changes of an object.
func TestObjectsLife(t *testing.T) {
	n := startObjects(t, 0, options{})
	s := n.watchObjects(&podconfigv1.WatchObjectsRequest{})
	s.want("SET", "synced file? api?")
	web := user("web", "n1", "cm/a", "secret/b")

	// The pod exists before one of its objects.
	n.apply("file", from("a", web, object("cm/a", "1")))
	s.want("PUT cm/a=1", "MISSING secret/b", "heartbeat file api?")
	n.apply("file", from("a", web, object("cm/a", "1")), from("b", object("secret/b", "x")))
	s.want("PUT secret/b=x")
	// Edits in two origins at once are one revision.
	n.apply("file", from("a", web, object("cm/a", "2")), from("b", object("secret/b", "y")))
	s.want("PUT cm/a=2 secret/b=y")
	// No pod refers to this one.
	n.apply("file", from("a", web, object("cm/a", "2"), object("cm/other", "1")), from("b", object("secret/b", "y")))
	// An object is removed while a pod needs it.
	n.apply("file", from("a", web, object("cm/a", "2")))
	s.want("MISSING secret/b")
	// A second pod refers to one of them, and the first is removed.
	n.apply("file", from("a", web, object("cm/a", "2")), from("c", user("db", "n1", "cm/a")))
	n.apply("file", from("a", object("cm/a", "2")), from("c", user("db", "n1", "cm/a")))
	s.want("REMOVE secret/b")
	// The last pod and the object are removed together, so the object isn't reported as missing.
	n.apply("file")
	s.want("REMOVE cm/a")
}

// TestObjectsHeld: while an origin can't be used, its objects stay; a source that can't be read changes nothing.
func TestObjectsHeld(t *testing.T) {
	n := startObjects(t, 0, options{})
	web := user("web", "n1", "cm/a", "cm/b", "cm/c")
	broken := from("a", web, object("cm/b", "2"))
	broken.Held, broken.ObjectsUnknown = true, true
	n.apply("file", broken)
	// Only the broken file defines cm/a and cm/c.
	s := n.watchObjects(&podconfigv1.WatchObjectsRequest{})
	s.want("SET cm/b=2", "synced file? api?")
	n.apply("file", from("a", web, object("cm/a", "1"), object("cm/b", "2")))
	s.want("PUT cm/a=1")
	s.want("MISSING cm/c", "heartbeat file api?")
	again := from("a", web, object("cm/b", "3"))
	again.Held, again.ObjectsUnknown = true, true
	n.apply("file", again)
	s.want("PUT cm/b=3")
	n.apply("file", again, from("c", object("cm/c", "1")))
	s.want("PUT cm/c=1")
	n.apply("file", from("a", web, object("cm/b", "3")), from("c", object("cm/c", "1")))
	s.want("MISSING cm/a")
}

// TestObjectsOfAPI: a source receives the objects that its pods refer to, and no others. Late reports are
// ignored.
func TestObjectsOfAPI(t *testing.T) {
	n := startObjects(t, 0, options{})
	n.apply("file")
	api := n.follow("api")
	api.want()
	s := n.watchObjects(&podconfigv1.WatchObjectsRequest{})
	s.want("SET", "synced file api?")
	api.report("cm/unasked", "1")
	n.apply("api", from("x", user("x", "n1", "cm/a", "cm/unasked")))
	api.want("cm/a", "cm/unasked")
	api.report("cm/a", "1")
	s.want("PUT api:cm/a=1")
	api.miss("cm/unasked")
	s.want("MISSING api:cm/unasked", "heartbeat file api")
	api.report("cm/a", "1")
	api.report("cm/a", "2")
	s.want("PUT api:cm/a=2")
	// The pod is removed and added: the earlier report may be outdated.
	n.apply("api")
	s.want("REMOVE api:cm/a api:cm/unasked")
	api.want()
	api.report("cm/a", "3")
	n.apply("api", from("x", user("x", "n1", "cm/a")))
	api.want("cm/a")
	api.report("cm/a", "4")
	s.want("PUT api:cm/a=4")
}

// TestObjectsFormats: the content of an object in each format. The digest is the same in all.
func TestObjectsFormats(t *testing.T) {
	n := startObjects(t, 0, options{})
	n.apply("file", from("a", user("web", "n1", "secret/s", "cm/c"), object("secret/s", "x"), object("cm/c", "y")))
	get := func(f podconfigv1.PodFormat) map[podconfigv1.ObjectKind]*podconfigv1.Object {
		out := map[podconfigv1.ObjectKind]*podconfigv1.Object{}
		for _, o := range n.watchObjects(&podconfigv1.WatchObjectsRequest{Format: f}).unit().messages[0].GetUpdate().GetObjects() {
			if o.GetDigest() != object(map[bool]string{true: "cm/c", false: "secret/s"}[o.GetRef().GetKind() == 1],
				map[bool]string{true: "y", false: "x"}[o.GetRef().GetKind() == 1]).Digest {
				t.Errorf("%v: the digest of %v is %s", f, o.GetRef(), o.GetDigest())
			}
			out[o.GetRef().GetKind()] = o
		}
		return out
	}
	for _, f := range []podconfigv1.PodFormat{podconfigv1.PodFormat_POD_FORMAT_UNSPECIFIED, podconfigv1.PodFormat_POD_FORMAT_JSON} {
		got := get(f)
		if m := got[2].GetJson().AsMap(); m["kind"] != "Secret" || m["apiVersion"] != "v1" || m["data"].(map[string]any)["v"] != "eA==" {
			t.Errorf("%v: the Secret is %v", f, m)
		}
		if m := got[1].GetJson().AsMap(); m["kind"] != "ConfigMap" || m["data"].(map[string]any)["v"] != "y" {
			t.Errorf("%v: the ConfigMap is %v", f, m)
		}
	}
	got := get(podconfigv1.PodFormat_POD_FORMAT_PROTOBUF)
	var s v1.Secret
	if err := s.Unmarshal(got[2].GetProtobuf()); err != nil || s.Name != "s" || string(s.Data["v"]) != "x" {
		t.Errorf("the Secret in protobuf is %v, %v", s.Name, err)
	}
	var c v1.ConfigMap
	if err := c.Unmarshal(got[1].GetProtobuf()); err != nil || c.Name != "c" || c.Data["v"] != "y" {
		t.Errorf("the ConfigMap in protobuf is %v, %v", c.Name, err)
	}
	if got := get(podconfigv1.PodFormat_POD_FORMAT_REFERENCE); got[1].GetContent() != nil || got[2].GetContent() != nil {
		t.Errorf("references have content: %v", got)
	}
}

// TestObjectsFragments: a state of several MiB is sent in messages of about a quarter of a MiB, and one large
// object alone.
func TestObjectsFragments(t *testing.T) {
	n := startObjects(t, 0, options{})
	var refs []string
	content := []any{}
	for i := range 8 {
		ref := fmt.Sprintf("cm/c%d", i)
		refs = append(refs, ref)
		content = append(content, object(ref, strings.Repeat("x", 100<<10)))
	}
	content = append(content, object("cm/huge", strings.Repeat("x", 1<<20)))
	n.apply("file", from("a", append(content, user("web", "n1", append(refs, "cm/huge")...))...))
	u := n.watchObjects(&podconfigv1.WatchObjectsRequest{Format: podconfigv1.PodFormat_POD_FORMAT_PROTOBUF}).unit()
	var sizes []int
	for _, m := range u.messages[:len(u.messages)-1] {
		sizes = append(sizes, len(m.GetUpdate().GetObjects()))
		if size := proto.Size(m); size > 1<<20+8<<10 {
			t.Errorf("a message has %d bytes", size)
		}
		if m.GetUpdate().GetOp() != podconfigv1.ObjectOperation_OBJECT_OPERATION_SET {
			t.Errorf("a fragment is %v", m.GetUpdate().GetOp())
		}
	}
	if got := fmt.Sprint(sizes); got != "[2 2 2 2 1]" {
		t.Errorf("the fragments have %s objects; want [2 2 2 2 1]", got)
	}
}

// TestObjectsHeartbeat: a quiet stream sends heartbeats, with a cursor after revisions without changes for it.
func TestObjectsHeartbeat(t *testing.T) {
	clock := clocktest.NewTimers(time.Unix(0, 0))
	n := startObjects(t, 0, options{clock: clock})
	n.apply("file")
	n.apply("api")
	s := n.watchObjects(&podconfigv1.WatchObjectsRequest{
		Filter: &podconfigv1.PodFilter{Names: []string{"me"}}, HeartbeatInterval: durationpb.New(5 * time.Second),
	})
	at := s.want("SET", "synced file api").cursor
	if got := <-clock.Set; got != 5*time.Second {
		t.Errorf("the heartbeat is due in %v; want the 5 s that were asked for", got)
	}
	beat := func() *podconfigv1.WatchObjectsResponse {
		t.Helper()
		clock.Step(5 * time.Second)
		u := s.want("heartbeat file api")
		<-clock.Set
		return u.messages[0]
	}
	if m := beat(); m.GetCursor() != nil || m.GetHeartbeat().GetRevision() != at.GetRevision() {
		t.Errorf("the first heartbeat is %v; want revision %d and no cursor", m, at.GetRevision())
	}
	n.apply("file", from("a", user("you", "n1", "cm/a"), object("cm/a", "1")))
	// A heartbeat that is due at the same time may come first.
	m := beat()
	if m.GetCursor() == nil {
		m = beat()
	}
	if m.GetCursor().GetRevision() <= at.GetRevision() {
		t.Errorf("the next heartbeat is %v; want a cursor behind %v", m, at)
	}
}

// TestObjectsSecretsStayOutOfTheLog: no content of a Secret is logged, at any level, and no digest.
func TestObjectsSecretsStayOutOfTheLog(t *testing.T) {
	log := &logtest.Buffer{}
	n := startObjects(t, 0, options{service: func(c *service.Config) {
		c.Logger = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}})
	s := n.watchObjects(&podconfigv1.WatchObjectsRequest{})
	s.unit()
	secret, later := object("secret/s", "hunter2"), object("secret/s", "correct-horse")
	n.apply("file", from("a", user("web", "n1", "secret/s"), secret), from("b", secret))
	s.want("PUT secret/s=hunter2", "heartbeat file api?")
	n.apply("file", from("a", user("web", "n1", "secret/s"), later))
	s.want("PUT secret/s=correct-horse")
	n.stop()
	text := log.String()
	if !strings.Contains(text, "consumer of objects is gone") {
		t.Fatalf("the log is\n%s\nwant the consumer's end in it", text)
	}
	for _, word := range []string{"hunter2", "correct-horse", "aHVudGVyMg", secret.Digest, later.Digest} {
		if strings.Contains(text, word) {
			t.Errorf("the log has %q:\n%s", word, text)
		}
	}
}
