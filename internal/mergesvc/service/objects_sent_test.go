package service_test

import (
	"log/slog"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstream/podstream/internal/logtest"
	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/internal/mergesvc/merge"
	"github.com/podstream/podstream/internal/mergesvc/service"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// TestObjectsOfRemovedSource: when a source is removed, its objects are removed with its pods.
func TestObjectsOfRemovedSource(t *testing.T) {
	n := startObjects(t, 0, options{})
	n.apply("api")
	n.apply("file", from("a", user("web", "n1", "cm/a", "cm/b"), object("cm/a", "1")))
	s := n.watchObjects(&podconfigv1.WatchObjectsRequest{})
	s.want("SET cm/a=1", "MISSING cm/b", "synced file api")
	n.hub.Configure([]merge.Source{{Name: "api"}})
	n.objects.Drop("file")
	s.want("REMOVE cm/a cm/b", "heartbeat api")
}

// TestObjectsDoubtful: an object that was sent, and whose state is no longer known, is removed with its pod.
func TestObjectsDoubtful(t *testing.T) {
	n := startObjects(t, 0, options{})
	n.apply("api")
	web := from("a", user("web", "n1", "cm/x"), object("cm/x", "1"))
	n.apply("file", web)
	s := n.watchObjects(&podconfigv1.WatchObjectsRequest{})
	s.want("SET cm/x=1", "synced file api")
	broken := &manifest.Origin{Name: "b", Held: true, ObjectsUnknown: true}
	n.apply("file", from("a", user("web", "n1", "cm/x")), broken)
	// Another revision is published.
	n.apply("file", from("a", user("web", "n1", "cm/x")), broken, from("c", user("db", "n1", "cm/y"), object("cm/y", "1")))
	s.want("PUT cm/y=1")
	n.apply("file", broken, from("c", user("db", "n1", "cm/y"), object("cm/y", "1")))
	s.want("REMOVE cm/x")
}

// TestObjectsReadinessWithItsCursor: the readiness of sources comes in one unit with the objects that made them
// ready. A consumer that resumes there, with objects that a SET left undecided, receives the removal of those
// that aren't needed.
func TestObjectsReadinessWithItsCursor(t *testing.T) {
	n := startObjects(t, 0, options{})
	s := n.watchObjects(&podconfigv1.WatchObjectsRequest{})
	set := s.want("SET", "synced file? api?")
	n.apply("file", from("a", user("web", "n1", "cm/new"), object("cm/new", "1")))
	ready := s.want("PUT cm/new=1", "heartbeat file api?")
	held := heldObjects("cm/old=1", "api:cm/open=1", "cm/new=1")
	again := n.watchObjects(resumed(ready.cursor, held...))
	for _, want := range []string{"REMOVE cm/old", "synced file api?"} {
		if got := again.want(want); !proto.Equal(got.cursor, ready.cursor) {
			t.Errorf("the cursor is %v; want %v", got.cursor, ready.cursor)
		}
	}
	// With a cursor from before, it is still undecided, and sent with the revision that decides.
	n.watchObjects(resumed(set.cursor, held[:2]...)).want("REMOVE cm/old", "PUT cm/new=1")
	// An object that no pod needs there, and a pod needs later, is removed and put in two units.
	n.apply("file", from("a", user("web", "n1", "cm/new", "cm/old"), object("cm/new", "1"), object("cm/old", "2")))
	again = n.watchObjects(resumed(ready.cursor, held...))
	again.want("REMOVE cm/old")
	again.want("PUT cm/old=2")
}

// TestObjectsUnencodable: an object that can't be encoded in a format is left out. The others and the stream
// aren't affected.
func TestObjectsUnencodable(t *testing.T) {
	log := &logtest.Buffer{}
	n := startObjects(t, 0, options{service: func(c *service.Config) { c.Logger = slog.New(slog.NewTextHandler(log, nil)) }})
	n.apply("api")
	bad := &manifest.Object{Digest: "sha256:bad", Secret: &v1.Secret{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: "bad", ManagedFields: []metav1.ManagedFieldsEntry{{FieldsV1: metav1.NewFieldsV1("{")}},
	}}}
	n.apply("file", from("a", user("web", "n1", "secret/bad", "cm/a"), bad, object("cm/a", "1")))
	s := n.watchObjects(&podconfigv1.WatchObjectsRequest{})
	s.want("SET cm/a=1", "synced file api")
	n.apply("file", from("a", user("web", "n1", "secret/bad", "cm/a"), object("secret/bad", "1"), object("cm/a", "1")))
	s.want("PUT secret/bad=1")
	n.apply("file", from("a", user("web", "n1", "secret/bad", "cm/a"), bad, object("cm/a", "1")))
	n.apply("file", from("a", user("web", "n1", "secret/bad", "cm/a"), bad, object("cm/a", "2")))
	s.want("PUT cm/a=2")
	if text := log.String(); !strings.Contains(text, "object can't be encoded and isn't sent") {
		t.Errorf("the log is\n%s\nwant a line on the object", text)
	}
}
