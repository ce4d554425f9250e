package objects

import (
	"errors"
	"slices"
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
