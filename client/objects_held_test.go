package client

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

const (
	opPut     = podconfigv1.ObjectOperation_OBJECT_OPERATION_PUT
	opRemove  = podconfigv1.ObjectOperation_OBJECT_OPERATION_REMOVE
	opMissing = podconfigv1.ObjectOperation_OBJECT_OPERATION_MISSING
	opSet     = podconfigv1.ObjectOperation_OBJECT_OPERATION_SET
)

// an is a ConfigMap of a source with a digest, which its content doesn't matter to.
func an(source, name, digest string) *podconfigv1.Object {
	data, _ := (&v1.ConfigMap{}).Marshal()
	return &podconfigv1.Object{
		Ref: ref(source, name).message(), Digest: digest, Content: &podconfigv1.Object_Protobuf{Protobuf: data},
	}
}

func ref(source, name string) ObjectRef {
	return ObjectRef{Kind: ConfigMapKind, Source: source, Namespace: "default", Name: name}
}

// TestHeldObjectsSet: of a SET the consumer gets what it doesn't hold; what it holds beyond goes when its source is ready.
func TestHeldObjectsSet(t *testing.T) {
	h := newHeldObjects(nil, []Object{
		{ObjectRef: ref("file", "same"), Digest: "1"}, {ObjectRef: ref("file", "changed"), Digest: "1"},
		{ObjectRef: ref("file", "gone"), Digest: "1"}, {ObjectRef: ref("api", "open"), Digest: "1"},
		{ObjectRef: ref("api", "back"), Digest: "1"}, {ObjectRef: ref("http", "unconfigured"), Digest: "1"},
		{ObjectRef: ref("file", "absent")},
	})
	tell := func(u *objectUnit) ObjectEvent {
		t.Helper()
		e, after, err := h.interpret(u)
		if err != nil {
			t.Fatal(err)
		}
		h = after
		return e
	}
	sources := func(api bool) []*podconfigv1.SourceReadiness {
		return []*podconfigv1.SourceReadiness{{Name: "file", Ready: true}, {Name: "api", Ready: api}}
	}
	e := tell(&objectUnit{
		updates: []*podconfigv1.ObjectUpdate{
			{Op: opSet, Objects: []*podconfigv1.Object{an("file", "same", "1"), an("file", "changed", "2")}},
			{Op: opMissing, Objects: []*podconfigv1.Object{{Ref: ref("file", "absent").message()}}},
		},
		synced: true, tells: true, sources: sources(false), cursor: &podconfigv1.Cursor{Revision: 1},
	})
	if len(e.Put) != 1 || e.Put[0].Name != "changed" || len(e.Missing) != 0 {
		t.Errorf("of the SET the consumer gets %v and missing %v; want what changed", e.Put, e.Missing)
	}
	if diff := cmp.Diff([]ObjectRef{ref("file", "gone")}, e.Removed); diff != "" {
		t.Errorf("removed with the SET (-want +got):\n%s", diff)
	}
	// One of those that were open comes after all.
	tell(&objectUnit{updates: []*podconfigv1.ObjectUpdate{{Op: opPut, Objects: []*podconfigv1.Object{an("api", "back", "1")}}}, cursor: &podconfigv1.Cursor{Revision: 2}})
	e = tell(&objectUnit{tells: true, sources: sources(true)})
	if diff := cmp.Diff([]ObjectRef{ref("api", "open"), ref("http", "unconfigured")}, e.Removed); diff != "" {
		t.Errorf("removed when all are ready (-want +got):\n%s", diff)
	}
	tell(&objectUnit{updates: []*podconfigv1.ObjectUpdate{{Op: opRemove, Objects: []*podconfigv1.Object{{Ref: ref("file", "same").message()}}}}})
	var held []string
	for _, k := range h.begin(&podconfigv1.WatchObjectsRequest{}, false).GetKnownObjects() {
		held = append(held, k.GetRef().GetName()+"="+k.GetDigest())
	}
	if diff := cmp.Diff([]string{"back=1", "absent=", "changed=2"}, held); diff != "" {
		t.Errorf("held in the end (-want +got):\n%s", diff)
	}
	if anew := h.begin(&podconfigv1.WatchObjectsRequest{}, true); anew.GetResumeAfter() != nil || anew.GetKnownObjects() != nil {
		t.Errorf("to begin anew it asks for %v; want everything", anew)
	}
}

// TestHeldObjectsBroken: content that isn't what it should be is an error without the content, and changes nothing.
func TestHeldObjectsBroken(t *testing.T) {
	h := newHeldObjects(nil, nil)
	bad := an("file", "a", "1")
	bad.Content = &podconfigv1.Object_Protobuf{Protobuf: []byte("\xffhunter2")}
	for _, o := range []*podconfigv1.Object{bad, {Ref: &podconfigv1.ObjectRef{Kind: 7, Name: "x"}}} {
		_, after, err := h.interpret(&objectUnit{updates: []*podconfigv1.ObjectUpdate{{Op: opPut, Objects: []*podconfigv1.Object{o}}}})
		if err == nil || after != nil || cmp.Diff(err.Error(), "") == "" {
			t.Errorf("of %v comes %v, %v; want an error", o.GetRef(), after, err)
		}
	}
}
