package objects

import (
	"errors"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/client"
	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
)

func reader(o *Objects, uid types.UID, source string) *Reader {
	return o.For(&v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: uid, Namespace: "default", Annotations: map[string]string{podmeta.SourceAnnotation: source}}})
}

// TestReaders: a pod reads the objects of its own source, and is known as a reader of what it asked for, had or not,
// until it is dropped.
func TestReaders(t *testing.T) {
	o := fed(t, client.ObjectEvent{Put: []client.Object{secret("file", "a", "1"), secret("api", "a", "2"), configMap("a", "3")}})
	u1, u2 := reader(o, "u1", "file"), reader(o, "u2", "api")
	for range 2 {
		if s, err := u1.Secret("a"); err != nil || string(s.Data["v"]) != "1" {
			t.Errorf("u1 reads %v, %v", s, err)
		}
	}
	if s, err := u2.Secret("a"); err != nil || string(s.Data["v"]) != "2" {
		t.Errorf("u2 reads %v, %v", s, err)
	}
	if c, err := u1.ConfigMap("a"); err != nil || c.Data["v"] != "3" {
		t.Errorf("u1 reads %v, %v", c, err)
	}
	if _, err := reader(o, "u3", "file").Secret("later"); !errors.Is(err, ErrUnknown) {
		t.Errorf("what wasn't told of: %v; want %v", err, ErrUnknown)
	}
	a, later := secretRef("file", "a"), secretRef("file", "later")
	for _, tc := range []struct {
		refs []Ref
		want []types.UID
	}{
		{nil, nil}, {[]Ref{a}, []types.UID{"u1"}}, {[]Ref{secretRef("api", "a"), a}, []types.UID{"u1", "u2"}},
		{[]Ref{later, a, later}, []types.UID{"u1", "u3"}}, {[]Ref{secretRef("file", "never")}, nil},
	} {
		if got := o.ReadersOf(tc.refs); !slices.Equal(got, tc.want) {
			t.Errorf("readers of %v: %v; want %v", tc.refs, got, tc.want)
		}
	}
	o.Drop("u1")
	if got := o.ReadersOf([]Ref{a, later}); !slices.Equal(got, []types.UID{"u3"}) || len(o.readers) != 2 {
		t.Errorf("after u1 was dropped: %v, %d objects; want u3 only, and 2 objects", got, len(o.readers))
	}
}

// TestWithdrawn: an object that podconfigd removes stays as long as a pod here reads it: that podconfigd may be behind, or
// lack the node, and doesn't know the pod. It goes with its last reader, and no more than a bound is kept.
func TestWithdrawn(t *testing.T) {
	removed := func(o *Objects, names ...string) {
		var e client.ObjectEvent
		for _, name := range names {
			e.Removed = append(e.Removed, secretRef("file", name))
		}
		o.apply(e)
	}
	read := func(o *Objects, uid, name, want string) {
		t.Helper()
		r := &Reader{objects: o, uid: types.UID(uid), source: "file", namespace: "default"}
		s, err := r.Secret(name)
		got := "unknown"
		if err == nil {
			got = string(s.Data["v"])
		} else if !errors.Is(err, ErrUnknown) {
			t.Fatal(err)
		}
		if got[:min(len(got), 10)] != want {
			t.Errorf("pod %s reads %.10q from %s; want %q", uid, got, name, want)
		}
	}
	o := fed(t, client.ObjectEvent{Put: []client.Object{secret("file", "a", "1"), secret("file", "b", "1")}})
	read(o, "u1", "a", "1")
	read(o, "u2", "a", "1")
	for range 2 {
		removed(o, "a", "b")
		read(o, "u1", "a", "1")
	}
	o.Drop("u2")
	read(o, "u1", "a", "1")
	read(o, "u3", "b", "unknown") // No pod read it.
	// What is sent again belongs to podconfigd again.
	o.apply(client.ObjectEvent{Put: []client.Object{secret("file", "a", "2")}})
	read(o, "u1", "a", "2")
	removed(o, "a")
	read(o, "u1", "a", "2")
	o.Drop("u1")
	if len(o.held) != 0 || len(o.withdrawn) != 0 || o.withdrawnBytes != 0 {
		t.Errorf("after the last reader it holds %v, withdrawn %v of %d bytes", o.held, o.withdrawn, o.withdrawnBytes)
	}
	large := strings.Repeat("x", maxWithdrawn/3)
	o = fed(t, client.ObjectEvent{Put: []client.Object{secret("file", "a", large), secret("file", "b", large), secret("file", "c", large)}})
	for _, name := range []string{"a", "b", "c"} {
		read(o, "u1", name, large[:10])
	}
	removed(o, "a", "b", "c")
	read(o, "u1", "a", large[:10])
	read(o, "u1", "b", large[:10])
	read(o, "u1", "c", "unknown")
}
