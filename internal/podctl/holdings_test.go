package podctl

import (
	"slices"
	"testing"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// The duties of a consumer, as podconfig.v1 lists them.
func TestHoldings(t *testing.T) {
	apply := func(m *message) func(*holdings) {
		return func(h *holdings) { h.apply(m.GetUpdate()) }
	}
	sync := func(sources ...*podconfigv1.SourceReadiness) func(*holdings) {
		return func(h *holdings) { h.sync(sources) }
	}
	isReady := func(name string, ready bool) *podconfigv1.SourceReadiness {
		return &podconfigv1.SourceReadiness{Name: name, Ready: ready}
	}
	pod := func(source, name string) *podconfigv1.Pod { return refPod(source, "default", name) }

	tests := []struct {
		name  string
		steps []func(*holdings)
		want  []string
	}{
		{"an added pod is held once", []func(*holdings){
			apply(op(1, opAdd, pod("file", "a"))), apply(op(2, opAdd, pod("file", "a"))),
		}, []string{"file/a"}},
		{"RESTORE adds, DELETE keeps until REMOVE", []func(*holdings){
			apply(op(1, opRestore, pod("file", "a"), pod("file", "b"))),
			apply(op(2, opDelete, pod("file", "a"), pod("file", "b"))), apply(op(3, opRemove, pod("file", "b"))),
		}, []string{"file/a"}},
		{"a UID that passes to another source", []func(*holdings){
			apply(op(1, opAdd, pod("file", "a"))),
			apply(sourceOp(2, opAdd, "http", true, pod("http", "a"))), apply(op(2, opRemove, pod("file", "a"))),
		}, []string{"http/a"}},
		{"SET removes of a ready source", []func(*holdings){
			apply(op(1, opAdd, pod("file", "a"), pod("file", "b"))), apply(op(2, opSet, pod("file", "b"))),
		}, []string{"file/b"}},
		{"SET removes nothing of a source that isn't ready", []func(*holdings){
			apply(sourceOp(1, opAdd, "api", false, pod("api", "a"))), apply(op(2, opSet, pod("file", "b"))),
		}, []string{"api/a", "file/b"}},
		{"what was missing goes when the source becomes ready", []func(*holdings){
			apply(sourceOp(1, opAdd, "api", false, pod("api", "a"), pod("api", "c"))), apply(op(2, opSet, pod("file", "b"))),
			apply(sourceOp(3, opAdd, "api", true, pod("api", "c"))),
		}, []string{"api/c", "file/b"}},
		{"readiness is that of the current stream", []func(*holdings){
			apply(op(1, opAdd, pod("file", "a"))), (*holdings).startStream,
			apply(sourceOp(2, opSet, "api", true)),
		}, []string{"file/a"}},
		{"and synced tells it", []func(*holdings){
			apply(op(1, opAdd, pod("file", "a"))), (*holdings).startStream,
			apply(sourceOp(2, opSet, "api", true)), sync(isReady("file", true), isReady("api", true)),
		}, nil},
		{"pods of a source that is gone stay until all are ready", []func(*holdings){
			apply(op(1, opAdd, pod("file", "a"))), sync(isReady("http", true), isReady("api", false)),
		}, []string{"file/a"}},
		{"and go then", []func(*holdings){
			apply(op(1, opAdd, pod("file", "a"))), sync(isReady("http", true), isReady("api", true)),
		}, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			h := newHoldings()
			for _, step := range test.steps {
				step(h)
			}
			var got []string
			for _, k := range h.known() {
				got = append(got, k.GetSource()+"/"+k.GetUid())
			}
			want := slices.Clone(test.want)
			for i := range want {
				want[i] += "-11111111-2222"
			}
			if !slices.Equal(got, want) {
				t.Errorf("held %v, want %v", got, want)
			}
		})
	}
}

// Fragments of one op are one op; neighbouring ops aren't.
func TestRevisionJoinsFragments(t *testing.T) {
	a, b := refPod("file", "default", "a"), refPod("file", "default", "b")
	tests := []struct {
		name     string
		messages []*message
		want     int
	}{
		{"two fragments", []*message{op(0, opAdd, a), op(1, opAdd, b)}, 1},
		{"fragments of SET, one of them empty", []*message{op(0, opSet), op(0, opSet, a), op(1, opSet, b)}, 1},
		{"two ops", []*message{op(0, opAdd, a), op(1, opUpdate, b)}, 2},
		{"two sources", []*message{op(0, opAdd, a), sourceOp(1, opAdd, "api", true, b)}, 2},
		{"a source becoming ready", []*message{op(0, opAdd, a), op(1, opAdd)}, 2},
	}
	for _, test := range tests {
		var r revision
		for _, m := range test.messages {
			r.add(m.GetUpdate())
		}
		if len(r.updates) != test.want {
			t.Errorf("%s: %d ops, want %d", test.name, len(r.updates), test.want)
		}
	}
}
