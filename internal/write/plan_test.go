package write_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	parsed "github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/internal/write"
)

// document returns a document of a caller and a set, whose text is of that many bytes.
func document(caller, set string, key write.Key, bytes int) *write.Document {
	text := []byte(strings.Repeat("x", bytes))
	return &write.Document{Key: key, Set: set, Caller: caller, Text: text, Digest: write.DigestOf(text)}
}

func pod(name string) write.Key { return write.KeyOf("", "", name) }

func conf(name string) write.Key { return write.KeyOf(write.ConfigMapKind, "", name) }

func present(documents ...*write.Document) map[write.Key]*write.Document {
	out := map[write.Key]*write.Document{}
	for _, d := range documents {
		out[d.Key] = d
	}
	return out
}

// drafts are documents of a request.
func drafts(documents ...*write.Document) (out []write.Draft) {
	for i, d := range documents {
		out = append(out, write.Draft{Document: d, Place: write.Place{File: "f", Document: i + 1, Line: i + 1}})
	}
	return out
}

func steps(p write.Plan) (out []string) {
	for _, s := range p.Steps {
		out = append(out, s.Action.String()+" "+s.Key.String())
	}
	return out
}

// TestPlan: what a change does, or the error that refuses it. In each row the present documents are alice's pods a and b in the
// set one, her c in the set two, and bob's d in the set one.
func TestPlan(t *testing.T) {
	now := present(document("alice", "one", pod("a"), 1), document("alice", "one", pod("b"), 2),
		document("alice", "two", pod("c"), 3), document("bob", "one", pod("d"), 4))
	for _, tc := range []struct {
		name   string
		change write.Change
		want   []string
		err    error
	}{
		{
			name:   "new, changed, as it is",
			change: write.Change{Drafts: drafts(document("alice", "one", pod("n"), 9), document("alice", "one", pod("a"), 9), document("alice", "one", pod("b"), 2))},
			want:   []string{"created pod default/n", "configured pod default/a", "unchanged pod default/b"},
		},
		{
			name:   "another set",
			change: write.Change{Set: "two", Drafts: drafts(document("alice", "two", pod("a"), 1))},
			want:   []string{"configured pod default/a"},
		},
		{
			name:   "prune removes only the caller's documents of the set",
			change: write.Change{Prune: true, Drafts: drafts(document("alice", "one", pod("a"), 1))},
			want:   []string{"unchanged pod default/a", "pruned pod default/b"},
		},
		{
			name:   "root's prune doesn't remove another caller's, either",
			change: write.Change{Caller: "root", Any: true, Prune: true, AllowEmpty: true},
			want:   nil,
		},
		{name: "prune of everything", change: write.Change{Prune: true}, err: write.ErrEmpty},
		{
			name:   "prune of everything that is allowed",
			change: write.Change{Prune: true, AllowEmpty: true},
			want:   []string{"pruned pod default/a", "pruned pod default/b"},
		},
		{name: "prune of a set without documents", change: write.Change{Set: "none", Prune: true}, want: nil},
		{
			name:   "another caller's document",
			change: write.Change{Drafts: drafts(document("alice", "one", pod("d"), 4))}, err: &write.ForeignError{Key: pod("d")},
		},
		{
			name:   "another caller's document, by root",
			change: write.Change{Caller: "root", Any: true, Drafts: drafts(document("root", "one", pod("d"), 4))},
			want:   []string{"configured pod default/d"},
		},
		{name: "a removal", change: write.Change{Delete: []write.Key{pod("a"), pod("c")}}, want: []string{"deleted pod default/a", "deleted pod default/c"}},
		{name: "a removal of what doesn't exist", change: write.Change{Delete: []write.Key{pod("a"), pod("n")}}, err: &write.MissingError{Key: pod("n")}},
		{
			name:   "a removal of what may be missing",
			change: write.Change{Delete: []write.Key{pod("a"), pod("n")}, IgnoreMissing: true},
			want:   []string{"deleted pod default/a", "absent pod default/n"},
		},
		{name: "a removal of another caller's", change: write.Change{Delete: []write.Key{pod("d")}}, err: &write.MissingError{Key: pod("d")}},
		{
			name:   "a removal of another caller's, by root",
			change: write.Change{Caller: "root", Any: true, Delete: []write.Key{pod("d")}}, want: []string{"deleted pod default/d"},
		},
		{
			name: "the expected version",
			change: write.Change{
				Drafts:   drafts(document("alice", "one", pod("a"), 9), document("alice", "one", pod("n"), 9)),
				Expected: map[write.Key]string{pod("a"): now[pod("a")].Digest, pod("n"): ""},
			},
			want: []string{"configured pod default/a", "created pod default/n"},
		},
		{
			name:   "another version than expected",
			change: write.Change{Drafts: drafts(document("alice", "one", pod("a"), 9)), Expected: map[write.Key]string{pod("a"): "sha256:other"}},
			err:    &write.MovedError{Key: pod("a"), Digest: now[pod("a")].Digest},
		},
		{
			name:   "one that isn't expected to exist",
			change: write.Change{Drafts: drafts(document("alice", "one", pod("a"), 9)), Expected: map[write.Key]string{pod("a"): ""}},
			err:    &write.MovedError{Key: pod("a"), Digest: now[pod("a")].Digest},
		},
		{
			name:   "one that is gone",
			change: write.Change{Drafts: drafts(document("alice", "one", pod("n"), 9)), Expected: map[write.Key]string{pod("n"): "sha256:other"}},
			err:    &write.MovedError{Key: pod("n")},
		},
		{
			name:   "a pruned one of another version",
			change: write.Change{Prune: true, Drafts: drafts(document("alice", "one", pod("a"), 1)), Expected: map[write.Key]string{pod("b"): "sha256:other"}},
			err:    &write.MovedError{Key: pod("b"), Digest: now[pod("b")].Digest},
		},
		{
			name:   "an expectation of what isn't changed",
			change: write.Change{Drafts: drafts(document("alice", "one", pod("a"), 9)), Expected: map[write.Key]string{pod("c"): ""}},
			err:    &write.UnmatchedError{Key: pod("c")},
		},
		{
			name:   "too many pods",
			change: write.Change{Drafts: drafts(document("alice", "one", pod("n"), 9)), MaxPods: 3},
			err:    &write.LimitError{What: "pods of this caller", Have: 4, Max: 3},
		},
		{
			name:   "a ConfigMap isn't a pod",
			change: write.Change{Drafts: drafts(document("alice", "one", conf("n"), 9)), MaxPods: 3}, want: []string{"created configmap default/n"},
		},
		{
			name:   "too many bytes",
			change: write.Change{Drafts: drafts(document("alice", "one", pod("a"), 9)), MaxBytes: 13},
			err:    &write.LimitError{What: "bytes of manifests of this caller", Have: 14, Max: 13},
		},
		{
			name:   "a limit that was lowered keeps no caller from removing",
			change: write.Change{Delete: []write.Key{pod("a")}, MaxPods: 1, MaxBytes: 1}, want: []string{"deleted pod default/a"},
		},
	} {
		if tc.change.Caller == "" {
			tc.change.Caller = "alice"
		}
		if tc.change.Set == "" {
			tc.change.Set = "one"
		}
		before := maps.Clone(now)
		plan, err := tc.change.Plan(now)
		if !maps.Equal(now, before) {
			t.Errorf("%s: Plan has changed the present documents", tc.name)
		}
		if fmt.Sprint(err) != fmt.Sprint(tc.err) || !sameType(err, tc.err) {
			t.Errorf("%s: %T %v; want %T %v", tc.name, err, err, tc.err, tc.err)
		}
		if diff := cmp.Diff(tc.want, steps(plan)); err == nil && diff != "" {
			t.Errorf("%s: (-want +got):\n%s", tc.name, diff)
		}
	}
}

func sameType(a, b error) bool { return fmt.Sprintf("%T", a) == fmt.Sprintf("%T", b) }

// TestLimitsOfTheSource: a write that leads to more documents or bytes than the source takes is refused, also if other callers have them.
func TestLimitsOfTheSource(t *testing.T) {
	full := map[write.Key]*write.Document{}
	for i := range write.MaxDocuments {
		d := document("bob", "one", conf(fmt.Sprint(i)), 1)
		full[d.Key] = d
	}
	limit := (*write.LimitError)(nil)
	c := write.Change{Caller: "root", Any: true, Drafts: drafts(document("root", "one", pod("n"), 1))}
	if _, err := c.Plan(full); !errors.As(err, &limit) || limit.Max != write.MaxDocuments {
		t.Errorf("the %dth document: %v; want a LimitError", write.MaxDocuments+1, err)
	}
	delete(full, conf("0"))
	if _, err := c.Plan(full); err != nil {
		t.Errorf("the %dth document: %v; want none", write.MaxDocuments, err)
	}
	large := present(document("bob", "one", conf("large"), write.MaxBytes-1))
	if _, err := c.Plan(large); err != nil {
		t.Errorf("the last byte: %v; want none", err)
	}
	c.Drafts = drafts(document("root", "one", pod("n"), 2))
	if _, err := c.Plan(large); !errors.As(err, &limit) || limit.Max != write.MaxBytes {
		t.Errorf("a byte too many: %v; want a LimitError", err)
	}
	// Callers that may not change everything leave a tenth.
	c.Caller, c.Any = "alice", false
	for text, documents := range map[string]map[write.Key]*write.Document{
		"bytes": present(document("bob", "one", conf("large"), write.MaxBytes/10*9)), "documents": full,
	} {
		if _, err := c.Plan(documents); !errors.As(err, &limit) || !strings.HasPrefix(limit.What, text) || limit.Have != 0 {
			t.Errorf("alice's write to the last tenth of the %s: %v; want a LimitError without what others have", text, err)
		}
	}
}

// TestOrigins: a plan's origins are those of the new documents. A document that is removed, or gets another origin, is gone.
func TestOrigins(t *testing.T) {
	read := func(set, text string) *write.Document {
		d, err := write.Read([]write.File{{Name: "f", Content: []byte(text)}}, "alice", set, write.Options{Node: "n1"})
		if err != nil {
			t.Fatal(err)
		}
		return d[0].Document
	}
	a, b, c := read("one", manifest("a", "1")), read("one", manifest("b", "1")), read("one", manifest("c", "1"))
	change := write.Change{
		Caller: "alice", Set: "two", Drafts: drafts(read("two", manifest("a", "1")), read("one", manifest("b", "2")), read("one", manifest("c", "1"))),
	}
	plan, err := change.Plan(present(a, b, c))
	if err != nil {
		t.Fatal(err)
	}
	origins, gone := plan.Origins()
	var names []string
	for _, o := range origins {
		names = append(names, o.Name)
	}
	if diff := cmp.Diff([]string{"applied/two/default/a", "applied/one/default/b"}, names); diff != "" {
		t.Errorf("origins (-want +got):\n%s", diff)
	}
	if !slices.Equal(gone, []string{"applied/one/default/a"}) {
		t.Errorf("gone are %q; want the former origin of a", gone)
	}
	if plan.Steps[0].Before.UID() != plan.Steps[0].Next.UID() || plan.Steps[1].Before.UID() == plan.Steps[1].Next.UID() {
		t.Error("a pod that moves to another set has another UID, or one with another manifest has the same")
	}
}

// TestSameUID: two pods of the source can't have one UID, and the error names no pod of another caller: a UID that root has
// written may be the one that a deployer's manifest has on this node.
func TestSameUID(t *testing.T) {
	withUID := func(caller, name string) *write.Document {
		d := document(caller, "one", pod(name), 1)
		d.Origin = &parsed.Origin{Name: name, Pods: []*parsed.Pod{{Pod: &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: "same"}}}}}
		return d
	}
	for _, tc := range []struct {
		name          string
		before, draft *write.Document
		any           bool
		want          string
	}{
		{"another caller's pod before it", withUID("bob", "a"), withUID("alice", "m"), false, "pod default/m has the uid of a pod of another caller"},
		{"another caller's pod after it", withUID("bob", "z"), withUID("alice", "m"), false, "pod default/m has the uid of a pod of another caller"},
		{"its own pod", withUID("alice", "z"), withUID("alice", "m"), false, "pod default/z has the uid of pod default/m"},
		{"root", withUID("bob", "z"), withUID("alice", "m"), true, "pod default/z has the uid of pod default/m"},
	} {
		c := write.Change{Caller: "alice", Set: "one", Drafts: drafts(tc.draft), Any: tc.any}
		if _, err := c.Plan(present(tc.before)); err == nil || err.Error() != tc.want {
			t.Errorf("%s: %v; want %q", tc.name, err, tc.want)
		}
	}
}
