package stream

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// anObject is SOURCE/NAME=DIGEST, or SOURCE/NAME without a digest.
func anObject(text string) *podconfigv1.Object {
	where, digest, _ := strings.Cut(text, "=")
	source, name, _ := strings.Cut(where, "/")
	return &podconfigv1.Object{Digest: digest, Ref: &podconfigv1.ObjectRef{
		Kind: podconfigv1.ObjectKind_OBJECT_KIND_CONFIG_MAP, Source: source, Namespace: "default", Name: name,
	}}
}

func objectOp(op podconfigv1.ObjectOperation, texts ...string) *podconfigv1.ObjectUpdate {
	u := &podconfigv1.ObjectUpdate{Op: op}
	for _, text := range texts {
		u.Objects = append(u.Objects, anObject(text))
	}
	return u
}

// objectReadiness is the readiness of sources; a question mark means not ready.
func objectReadiness(names ...string) []*podconfigv1.SourceReadiness {
	var out []*podconfigv1.SourceReadiness
	for _, name := range names {
		out = append(out, &podconfigv1.SourceReadiness{Name: strings.TrimSuffix(name, "?"), Ready: !strings.HasSuffix(name, "?")})
	}
	return out
}

func objectsUpTo(revision uint64, updates ...*podconfigv1.ObjectUpdate) *ObjectRevision {
	return &ObjectRevision{Updates: updates, Cursor: &podconfigv1.Cursor{InstanceId: "i", Revision: revision}}
}

func (r *ObjectRevision) synced(sources ...string) *ObjectRevision {
	r.Synced = &podconfigv1.Synced{Sources: objectReadiness(sources...)}
	return r
}

func (r *ObjectRevision) beat(sources ...string) *ObjectRevision {
	r.Heartbeat = &podconfigv1.Heartbeat{Sources: objectReadiness(sources...)}
	return r
}

// wantObjects applies a revision and compares its ops with words like "REMOVE file/a", "PUT file/a=1 file/b=2".
func (h *HeldObjects) wantObjects(t *testing.T, r *ObjectRevision, want ...string) {
	t.Helper()
	o := h.Interpret(r)
	h.Apply(o)
	var got []string
	for _, u := range o.Ops {
		line := strings.TrimPrefix(u.GetOp().String(), "OBJECT_OPERATION_")
		for _, object := range u.GetObjects() {
			line += " " + objectText(object.GetRef(), object.GetDigest())
		}
		got = append(got, line)
	}
	if !slices.Equal(got, want) {
		t.Fatalf("the revision comes to %q; want %q", got, want)
	}
}

func objectText(ref *podconfigv1.ObjectRef, digest string) string {
	text := ref.GetSource() + "/" + ref.GetName()
	if digest != "" {
		text += "=" + digest
	}
	return text
}

func knownTexts(known []*podconfigv1.KnownObject) string {
	var words []string
	for _, k := range known {
		words = append(words, objectText(k.GetRef(), k.GetDigest()))
	}
	return strings.Join(words, " ")
}

// heldOf holds objects from before a restart.
func heldOf(cursor *podconfigv1.Cursor, texts ...string) *HeldObjects {
	var known []*podconfigv1.KnownObject
	for _, text := range texts {
		o := anObject(text)
		known = append(known, &podconfigv1.KnownObject{Ref: o.GetRef(), Digest: o.GetDigest()})
	}
	return NewHeldObjects(cursor, known)
}

// TestObjectSet: a SET becomes the objects that aren't held; held objects that it lacks are removed once their source
// is ready.
func TestObjectSet(t *testing.T) {
	h := heldOf(nil, "file/same=1", "file/changed=1", "file/gone=1", "api/open=1", "api/back=1", "http/unconfigured=1", "file/absent", "file/went=1")
	h.Begin(nil)
	h.wantObjects(t, objectsUpTo(1, objectOp(objectSet, "file/same=1", "file/changed=2"), objectOp(objectMissing, "file/absent", "file/went")).
		synced("file", "api?"), "REMOVE file/gone", "PUT file/changed=2", "MISSING file/went")
	// One of those that were open comes after all, unchanged.
	h.wantObjects(t, objectsUpTo(2, objectOp(objectPut, "api/back=1")))
	h.wantObjects(t, &ObjectRevision{Heartbeat: &podconfigv1.Heartbeat{Sources: objectReadiness("file", "api")}},
		"REMOVE api/open http/unconfigured")
	h.wantObjects(t, objectsUpTo(3, objectOp(objectRemove, "file/same")), "REMOVE file/same")
	if got, want := knownTexts(h.Known()), "api/back=1 file/absent file/changed=2 file/went"; got != want {
		t.Errorf("held in the end are %q; want %q", got, want)
	}
}

// TestObjectSetBreaks: a stream that breaks between a SET and the readiness of a source leaves nothing behind: the
// next request doesn't list absent objects, so podconfigd sends them again if they exist, and otherwise reports the
// source as ready.
func TestObjectSetBreaks(t *testing.T) {
	for name, tc := range map[string]struct {
		next *ObjectRevision
		want []string
	}{
		"gone":       {objectsUpTo(2).synced("file", "http"), []string{"REMOVE http/old"}},
		"still open": {objectsUpTo(2).synced("file", "http?"), nil},
		"there":      {objectsUpTo(2, objectOp(objectPut, "http/old=1")).synced("file", "http"), nil},
		"changed":    {objectsUpTo(2, objectOp(objectPut, "http/old=2")).synced("file", "http"), []string{"PUT http/old=2"}},
		"missing":    {objectsUpTo(2, objectOp(objectMissing, "http/old")).synced("file", "http"), []string{"MISSING http/old"}},
		"a SET":      {objectsUpTo(9, objectOp(objectSet, "http/new=1", "file/a=1")).synced("file", "http"), []string{"REMOVE http/old"}},
	} {
		t.Run(name, func(t *testing.T) {
			h := heldOf(nil, "http/old=1")
			h.Begin(nil)
			h.wantObjects(t, objectsUpTo(1, objectOp(objectSet, "file/a=1")).synced("file", "http?"), "PUT file/a=1")
			h.wantObjects(t, objectsUpTo(2, objectOp(objectPut, "http/new=1")), "PUT http/new=1")
			request := h.Begin(nil)
			if got := knownTexts(request.GetKnownObjects()); got != "file/a=1 http/new=1" || request.GetResumeAfter().GetRevision() != 2 {
				t.Errorf("the next stream is asked for after %v, knowing %q; want what podconfigd has told", request.GetResumeAfter(), got)
			}
			h.wantObjects(t, tc.next, tc.want...)
		})
	}
}

// TestObjectSetEarly: readiness before the initial state is complete removes nothing.
func TestObjectSetEarly(t *testing.T) {
	h := heldOf(nil, "file/a=1")
	h.Begin(nil)
	h.wantObjects(t, objectsUpTo(1, objectOp(objectSet)))
	h.wantObjects(t, (&ObjectRevision{}).beat("file"))
	h.wantObjects(t, objectsUpTo(2, objectOp(objectPut, "file/a=1")).synced("file"))
	// Of no sources at all nothing is certain.
	h.wantObjects(t, objectsUpTo(3, objectOp(objectSet)).synced())
	h.wantObjects(t, (&ObjectRevision{}).beat("api"), "REMOVE file/a")
}

// TestObjectSources: SourcesChanged follows the list and the readiness of the sources.
func TestObjectSources(t *testing.T) {
	h := NewHeldObjects(nil, nil)
	for i, tc := range []struct {
		revision *ObjectRevision
		changed  bool
	}{
		{objectsUpTo(1).synced("file", "api?"), true},
		{(&ObjectRevision{}).beat("file", "api?"), false},
		{objectsUpTo(2, objectOp(objectPut, "api/a=1")).beat("file", "api"), true},
		{objectsUpTo(3), false},
		{(&ObjectRevision{}).beat("api", "file"), true},
	} {
		o := h.Interpret(tc.revision)
		if o.SourcesChanged != tc.changed || o.Moved != (tc.revision.Cursor != nil) {
			t.Errorf("revision %d: sources changed is %v and moved %v", i, o.SourcesChanged, o.Moved)
		}
		h.Apply(o)
	}
}

// TestObjectBegin: objects beyond the bounds of a request are left out, with a cursor that makes podconfigd send all,
// unless the consumer's own cursor is enough.
func TestObjectBegin(t *testing.T) {
	h := NewHeldObjects(nil, nil)
	base := &podconfigv1.WatchObjectsRequest{Consumer: "me"}
	if request := h.Begin(base); !proto.Equal(request, base) || request == base {
		t.Errorf("who holds nothing asks for %v", request)
	}
	h.wantObjects(t, objectsUpTo(1, objectOp(objectPut, "file/a=1")).synced("file"), "PUT file/a=1")
	h.Anew()
	if request := h.Begin(base); !proto.Equal(request, base) {
		t.Errorf("after Anew the request is %v", request)
	}
	if request := h.Begin(base); request.GetResumeAfter().GetRevision() != 1 || len(request.GetKnownObjects()) != 1 {
		t.Errorf("the stream after that is asked for with %v; want the cursor and what is held", request)
	}
	var many []string
	for i := range maxKnownObjects {
		many = append(many, fmt.Sprintf("file/b%d=1", i))
	}
	put := objectOp(objectPut, many...)
	h.Apply(h.Interpret(objectsUpTo(2, put).synced("file", "api?")))
	if request := h.Begin(base); len(request.GetKnownObjects()) > 0 || request.ResumeAfter == nil || request.ResumeAfter.InstanceId != "" {
		t.Errorf("with too many objects the request resumes after %v; want an unknown cursor", request.GetResumeAfter())
	}
	h.Apply(h.Interpret(objectsUpTo(3).synced("file", "api")))
	if request := h.Begin(base); len(request.GetKnownObjects()) > 0 || request.GetResumeAfter().GetRevision() != 3 {
		t.Errorf("with too many objects, all of them certain, it is asked for after %v; want the cursor", request.GetResumeAfter())
	}
}
