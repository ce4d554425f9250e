package objects

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/client"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// fed is Objects that have got these events, one after the other. The stream has ended then.
func fed(t *testing.T, events ...client.ObjectEvent) *Objects {
	t.Helper()
	broken := errors.New("the stream has ended")
	filter := &podconfigv1.PodFilter{Nodes: []string{"n1"}}
	o := New(Config{Filter: filter, Watch: func(
		ctx context.Context, opts client.ObjectOptions, handle func(context.Context, client.ObjectEvent) error,
	) error {
		if opts.Filter != filter || opts.Known != nil || opts.ResumeAfter != nil {
			t.Errorf("it is watched with %+v", opts)
		}
		for _, e := range events {
			if err := handle(ctx, e); err != nil {
				return err
			}
		}
		return broken
	}})
	if err := o.Run(t.Context()); !errors.Is(err, broken) {
		t.Fatalf("Run returned %v", err)
	}
	return o
}

func secretRef(source, name string) Ref {
	return Ref{Kind: client.SecretKind, Source: source, Namespace: "default", Name: name}
}

func secret(source, name, value string) client.Object {
	return client.Object{
		ObjectRef: secretRef(source, name), Digest: value, Secret: &v1.Secret{Data: map[string][]byte{"v": []byte(value)}},
	}
}

func configMap(name, value string) client.Object {
	return client.Object{
		ObjectRef: Ref{Kind: client.ConfigMapKind, Source: "file", Namespace: "default", Name: name}, Digest: value,
		ConfigMap: &v1.ConfigMap{Data: map[string]string{"v": value}},
	}
}

// TestObjects: the held state is the last one that podconfigd sent. An object that it reported as missing differs from
// one that it hasn't reported, and objects of one source differ from another's.
func TestObjects(t *testing.T) {
	events := []client.ObjectEvent{
		{Put: []client.Object{secret("file", "a", "1"), configMap("a", "2")}, Missing: []Ref{secretRef("file", "b")}, Synced: true},
		{Put: []client.Object{secret("api", "a", "3"), secret("file", "a", "4")}},
		{Put: []client.Object{secret("file", "b", "5")}, Missing: []Ref{secretRef("api", "a")}},
		{Removed: []Ref{secretRef("file", "a"), secretRef("file", "never")}},
	}
	for _, tc := range []struct {
		after             int
		fileA, fileB, api string
	}{
		{0, "unknown", "unknown", "unknown"},
		{1, "1", "missing", "unknown"},
		{2, "4", "missing", "3"},
		{3, "4", "5", "missing"},
		{4, "unknown", "5", "missing"},
	} {
		o := fed(t, events[:tc.after]...)
		read := func(source, name string) string {
			s, err := o.Secret(source, "default", name)
			switch {
			case errors.Is(err, ErrMissing):
				return "missing"
			case errors.Is(err, ErrUnknown):
				return "unknown"
			case err != nil:
				t.Fatal(err)
			}
			return string(s.Data["v"])
		}
		if a, b, api := read("file", "a"), read("file", "b"), read("api", "a"); a != tc.fileA || b != tc.fileB || api != tc.api {
			t.Errorf("after %d events: %s, %s, %s; want %+v", tc.after, a, b, api, tc)
		}
	}
	o := fed(t, events...)
	if c, err := o.ConfigMap("file", "default", "a"); err != nil || c.Data["v"] != "2" {
		t.Errorf("the ConfigMap: %v, %v", c, err)
	}
	if _, err := o.ConfigMap("file", "default", "b"); !errors.Is(err, ErrUnknown) || !strings.Contains(err.Error(), "default/b") {
		t.Errorf("a ConfigMap of a Secret's name: %v", err)
	}
}

// TestTake: each object that has changed is taken once. An object that is sent again unchanged isn't taken.
func TestTake(t *testing.T) {
	first := client.ObjectEvent{Put: []client.Object{secret("file", "a", "1"), secret("file", "c", "1")}, Missing: []Ref{secretRef("file", "b")}}
	o := fed(t, first)
	taken := func(want string) {
		t.Helper()
		select {
		case <-o.Ready():
		default:
			if want != "" {
				t.Fatalf("nothing is ready; want %s", want)
			}
		}
		var names []string
		for _, ref := range o.Take() {
			names = append(names, ref.Name)
		}
		slices.Sort(names)
		if got := strings.Join(names, " "); got != want {
			t.Fatalf("taken %q; want %q", got, want)
		}
	}
	taken("a b c")
	o.apply(first)
	taken("")
	o.apply(client.ObjectEvent{Put: []client.Object{secret("file", "a", "2")}})
	o.apply(client.ObjectEvent{Put: []client.Object{secret("file", "b", "1")}, Missing: []Ref{secretRef("file", "c")}})
	o.apply(client.ObjectEvent{Removed: []Ref{secretRef("file", "b")}})
	taken("a c")
	o.apply(client.ObjectEvent{Synced: true})
	taken("")
}

// TestClaims: the claims of all sources that exist are known once podconfigd has sent all objects, and stay known after a break.
func TestClaims(t *testing.T) {
	claim := func(source, name string) client.Object {
		return client.Object{ObjectRef: Ref{Kind: Claim, Source: source, Namespace: "default", Name: name}, Digest: "1", Claim: &v1.PersistentVolumeClaim{}}
	}
	events := []client.ObjectEvent{
		{Put: []client.Object{claim("file", "a"), secret("file", "b", "1")}},
		{Put: []client.Object{claim("api", "a")}, Missing: []Ref{claim("file", "c").ObjectRef}, Synced: true},
		{Removed: []Ref{claim("file", "a").ObjectRef}},
		{Missing: []Ref{claim("api", "a").ObjectRef}},
	}
	for after, tc := range []struct {
		want  string
		known bool
	}{{"", false}, {"file/a", false}, {"api/a file/a", true}, {"api/a", true}, {"", true}} {
		claims, known := fed(t, events[:after]...).Claims()
		var names []string
		for _, ref := range claims {
			names = append(names, ref.Source+"/"+ref.Name)
		}
		slices.Sort(names)
		if got := strings.Join(names, " "); got != tc.want || known != tc.known {
			t.Errorf("after %d events: %q, known %t; want %+v", after, got, known, tc)
		}
	}
}
