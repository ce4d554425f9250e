package stream

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

const opRestore = podconfigv1.PodOperation_POD_OPERATION_RESTORE

// pods reads "uid", "uid/spec", "uid/spec/status" or "uid/spec/status/deleted"; a pod's name is its UID.
func pods(source string, texts ...string) []*podconfigv1.Pod {
	var out []*podconfigv1.Pod
	for _, text := range texts {
		fields := append(strings.Split(text, "/"), "", "", "")
		metadata := map[string]any{"name": fields[0]}
		if fields[3] == "deleted" {
			metadata["deletionTimestamp"] = "2026-03-01T12:00:00Z"
		}
		content, err := structpb.NewStruct(map[string]any{"metadata": metadata})
		if err != nil {
			panic(err)
		}
		out = append(out, &podconfigv1.Pod{
			Ref: &podconfigv1.PodRef{Uid: fields[0], Namespace: "default", Name: fields[0]}, Source: source,
			SpecDigest: fields[1], StatusDigest: fields[2], Content: &podconfigv1.Pod_Json{Json: content},
		})
	}
	return out
}

func update(op podconfigv1.PodOperation, source string, ready bool, texts ...string) *podconfigv1.PodUpdate {
	return &podconfigv1.PodUpdate{Op: op, Source: source, SourceReady: ready, Pods: pods(source, texts...)}
}

// setOf is a SET of file with pods of several sources.
func setOf(ready bool, parts ...[]*podconfigv1.Pod) *podconfigv1.PodUpdate {
	return &podconfigv1.PodUpdate{Op: opSet, Source: "file", SourceReady: ready, Pods: slices.Concat(parts...)}
}

func ops(updates ...*podconfigv1.PodUpdate) *Revision { return &Revision{Updates: updates} }

// sources reads "file" as ready and "-file" as not.
func sources(texts ...string) []*podconfigv1.SourceReadiness {
	var out []*podconfigv1.SourceReadiness
	for _, text := range texts {
		name, unready := strings.CutPrefix(text, "-")
		out = append(out, &podconfigv1.SourceReadiness{Name: name, Ready: !unready})
	}
	return out
}

func synced(texts ...string) *Revision {
	return &Revision{Synced: &podconfigv1.Synced{Sources: sources(texts...)}}
}

func heartbeat(texts ...string) *Revision {
	return &Revision{Heartbeat: &podconfigv1.Heartbeat{Sources: sources(texts...)}}
}

// newStream marks the start of another stream.
var newStream *Revision

// lines are ops as "ADD file: web db".
func lines(updates []*podconfigv1.PodUpdate) []string {
	var out []string
	for _, u := range updates {
		line := fmt.Sprintf("%s %s:", strings.TrimPrefix(u.GetOp().String(), "POD_OPERATION_"), u.GetSource())
		for _, p := range u.GetPods() {
			line += " " + p.GetRef().GetUid()
		}
		out = append(out, line)
	}
	return out
}

func heldPods(h *Held) []string {
	var out []string
	for _, p := range h.Known() {
		out = append(out, p.GetSource()+"/"+p.GetUid())
	}
	return out
}

// TestInterpret compares the ops that a consumer gets for a stream, and the pods that it holds in the end. The last
// revision's ops are compared.
func TestInterpret(t *testing.T) {
	file, api := update(opAdd, "file", true, "f1/a/x", "f2/a/x", "f3/a/x"), update(opAdd, "api", true, "a1/a/x")
	restored := update(opRestore, "file", false, "f1/a/x", "f2/a/x")
	for _, tc := range []struct {
		name      string
		revisions []*Revision
		want      []string
		held      string
	}{
		{"ops pass", []*Revision{ops(file, api)}, []string{"ADD file: f1 f2 f3", "ADD api: a1"}, "api/a1 file/f1 file/f2 file/f3"},
		{"an added pod is held once", []*Revision{ops(update(opAdd, "file", true, "f1")), ops(update(opAdd, "file", true, "f1"))},
			[]string{"ADD file: f1"}, "file/f1"},
		{"RESTORE adds, DELETE keeps until REMOVE", []*Revision{ops(restored), ops(update(opDelete, "file", true, "f1", "f2")),
			ops(update(opRemove, "file", true, "f2"))}, []string{"REMOVE file: f2"}, "file/f1"},
		{"a UID that passes to another source", []*Revision{ops(update(opAdd, "file", true, "p")),
			ops(update(opRemove, "file", true, "p"), update(opAdd, "http", true, "p"))}, []string{"REMOVE file: p", "ADD http: p"}, "http/p"},
		{"and its ops the other way round", []*Revision{ops(update(opAdd, "file", true, "p")),
			ops(update(opAdd, "http", true, "p"), update(opRemove, "file", true, "p"))}, []string{"ADD http: p", "REMOVE file: p"}, "http/p"},

		{"a SET of what is held is nothing", []*Revision{ops(file, api), ops(setOf(true, file.Pods, api.Pods))}, nil,
			"api/a1 file/f1 file/f2 file/f3"},
		{"a SET becomes what it changes", []*Revision{ops(file),
			ops(setOf(true, pods("file", "f1/b/x", "f2/a/y", "f3/c/x/deleted", "f4/a/x"), api.Pods))},
			[]string{"ADD api: a1", "ADD file: f4", "UPDATE file: f1", "DELETE file: f3", "RECONCILE file: f2"},
			"api/a1 file/f1 file/f2 file/f3 file/f4"},
		{"what is missing in a SET is removed", []*Revision{ops(file, api), ops(setOf(true, pods("file", "f2/a/x")))},
			[]string{"REMOVE api: a1", "REMOVE file: f1 f3"}, "file/f2"},
		{"what is missing of a source that isn't ready stays", []*Revision{ops(restored), ops(setOf(false))}, nil, "file/f1 file/f2"},
		{"until the source becomes ready", []*Revision{ops(restored), ops(setOf(false)), ops(update(opAdd, "file", true, "f2/a/x"))},
			[]string{"REMOVE file: f1", "ADD file: f2"}, "file/f2"},
		{"or is said to be by synced", []*Revision{ops(restored), ops(setOf(false)), synced("file", "-api")},
			[]string{"REMOVE file: f1 f2"}, ""},
		{"or by a heartbeat", []*Revision{ops(restored), ops(setOf(false)), heartbeat("file", "-api")},
			[]string{"REMOVE file: f1 f2"}, ""},
		{"a heartbeat that says nothing settles nothing", []*Revision{ops(restored), ops(setOf(false)), heartbeat()}, nil, "file/f1 file/f2"},
		{"what is missing but touched is there", []*Revision{ops(restored), ops(setOf(false)), ops(update(opReconcile, "file", false, "f1/a/y")),
			heartbeat("file")}, []string{"REMOVE file: f2"}, "file/f1"},
		{"another source's readiness is none of its", []*Revision{ops(restored), ops(setOf(false)), ops(update(opAdd, "api", true))},
			[]string{"ADD api:"}, "file/f1 file/f2"},
		{"readiness is that of the current stream", []*Revision{ops(file), newStream, ops(setOf(true, pods("file"), api.Pods)), newStream,
			ops(&podconfigv1.PodUpdate{Op: opSet, Source: "file"})}, nil, "api/a1"},
		{"and what was missing in the one before is forgotten", []*Revision{ops(restored), ops(setOf(false)), newStream, synced("file")},
			nil, "file/f1 file/f2"},

		{"a SET completed by synced", []*Revision{ops(file, api), newStream, {Updates: []*podconfigv1.PodUpdate{setOf(true, pods("file", "f1/a/x"))},
			Synced: synced("file", "api").Synced}}, []string{"REMOVE api: a1", "REMOVE file: f2 f3"}, "file/f1"},
		{"by which its source isn't ready", []*Revision{ops(file, api), newStream, {Updates: []*podconfigv1.PodUpdate{setOf(true)},
			Synced: synced("file", "-api").Synced}}, []string{"REMOVE file: f1 f2 f3"}, "api/a1"},
		{"a SET that says only that its source is ready", []*Revision{ops(restored), ops(setOf(true, restored.Pods))},
			[]string{"ADD file:"}, "file/f1 file/f2"},
		{"a REMOVE beside a SET isn't said twice", []*Revision{ops(file), ops(update(opRemove, "file", true, "f1"),
			setOf(true, pods("file", "f2/a/x", "f3/a/x")))}, []string{"REMOVE file: f1"}, "file/f2 file/f3"},
		{"nor an UPDATE and a DELETE after it", []*Revision{ops(file), ops(setOf(true, pods("file", "f1/b/x", "f2/b/x/deleted", "f3/a/x")),
			update(opUpdate, "file", true, "f1/b/x"), update(opDelete, "file", true, "f2/b/x/deleted"), update(opUpdate, "file", true, "f3/c/x"))},
			[]string{"UPDATE file: f1", "DELETE file: f2", "UPDATE file: f3"}, "file/f1 file/f2 file/f3"},
		{"a pod that moved to another source, and is being deleted there", []*Revision{ops(update(opAdd, "file", true, "p/a/x")),
			ops(setOf(true, pods("api", "p/b/x/deleted")))}, []string{"REMOVE file: p", "ADD api: p"}, "api/p"},
		{"a pod that moved away from a source that isn't ready", []*Revision{ops(restored), ops(setOf(false, pods("api", "f1/a/x")))},
			[]string{"REMOVE file: f1", "ADD api: f1"}, "api/f1 file/f2"},
		{"a missing pod of a source that isn't ready, whose UID another source has later", []*Revision{ops(restored), ops(setOf(false)),
			ops(update(opAdd, "api", true, "f1/a/x"))}, []string{"REMOVE file: f1", "ADD api: f1"}, "api/f1 file/f2"},
		{"a pod that moved to another source by REMOVE and SET", []*Revision{ops(update(opAdd, "file", true, "p/a/x")),
			ops(update(opRemove, "file", true, "p"), setOf(true, pods("api", "p/a/x")))}, []string{"REMOVE file: p", "ADD api: p"}, "api/p"},
	} {
		t.Run(tc.name, func(t *testing.T) { wantInterpreted(t, tc.revisions, tc.want, tc.held) })
	}
}

// wantInterpreted compares the ops for the last of the revisions, and the pods that are held in the end.
func wantInterpreted(t *testing.T, revisions []*Revision, want []string, held string) {
	t.Helper()
	h := NewHeld(nil, nil)
	var got []string
	for _, r := range revisions {
		if r == newStream {
			h.Begin(nil)
			continue
		}
		o := h.Interpret(r)
		h.Apply(o)
		got = lines(o.Ops)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the consumer is given (-want +got):\n%s", diff)
	}
	if got := strings.Join(heldPods(h), " "); got != held {
		t.Errorf("in the end it holds %q; want %q", got, held)
	}
}

// TestInterpretFillsInNames: podconfigd may have only a removed pod's UID; Held fills in its name.
func TestInterpretFillsInNames(t *testing.T) {
	h := NewHeld(nil, []*podconfigv1.KnownPod{{Uid: "u", Namespace: "prod", Name: "web", Source: "file", SpecDigest: "s"}})
	message := &podconfigv1.PodUpdate{Op: opRemove, Source: "file", Pods: []*podconfigv1.Pod{{Ref: &podconfigv1.PodRef{Uid: "u"}, Source: "file"}}}
	out := h.Interpret(ops(message)).Ops
	if p := out[0].GetPods()[0]; p.GetRef().GetName() != "web" || p.GetRef().GetNamespace() != "prod" || p.GetSpecDigest() != "s" {
		t.Errorf("the removed pod is %v; want prod/web with its digests", p)
	}
	if p := message.GetPods()[0]; p.GetRef().GetName() != "" {
		t.Errorf("the message itself was changed to %v", p)
	}
}

// TestKnownWithoutNames: stored pods may lack names and status digests; a missing one counts as equal.
func TestKnownWithoutNames(t *testing.T) {
	h := NewHeld(nil, []*podconfigv1.KnownPod{{Uid: "a", Source: "file", SpecDigest: "1"}, {Uid: "b", Source: "file"}})
	got := lines(h.Interpret(ops(setOf(true, pods("file", "a/1/x", "b/1/x")))).Ops)
	if diff := cmp.Diff([]string{"UPDATE file: b"}, got); diff != "" {
		t.Errorf("the consumer is given (-want +got):\n%s", diff)
	}
}

// TestRenamed: a pod with another name is another pod, also under the same UID.
func TestRenamed(t *testing.T) {
	h := NewHeld(nil, []*podconfigv1.KnownPod{{Uid: "a", Source: "file", Namespace: "default", Name: "before", SpecDigest: "1", StatusDigest: "x"}})
	o := h.Interpret(ops(setOf(true, pods("file", "a/1/x"))))
	if diff := cmp.Diff([]string{"REMOVE file: a", "ADD file: a"}, lines(o.Ops)); diff != "" {
		t.Fatalf("the consumer is given (-want +got):\n%s", diff)
	}
	if name := o.Ops[0].GetPods()[0].GetRef().GetName(); name != "before" {
		t.Errorf("the removed pod's name is %q; want that of before", name)
	}
}

// TestInterpretKeepsContent: the ops of a SET have its content, time and trace.
func TestInterpretKeepsContent(t *testing.T) {
	message := setOf(true, pods("file", "a/1/x"))
	message.ObservedTime = timestamppb.New(timestamppb.Now().AsTime())
	message.TraceContext = &podconfigv1.TraceContext{Traceparent: "00-1-2-01", Tracestate: "k=v"}
	want := &podconfigv1.PodUpdate{
		Op: opAdd, Source: "file", SourceReady: true, Pods: message.GetPods(), ObservedTime: message.GetObservedTime(),
		TraceContext: message.GetTraceContext(),
	}
	o := NewHeld(nil, nil).Interpret(ops(message))
	if diff := cmp.Diff([]*podconfigv1.PodUpdate{want}, o.Ops, protocmp.Transform()); diff != "" {
		t.Errorf("the consumer is given (-want +got):\n%s", diff)
	}
}

// TestInterpretChangesNothing: a revision that isn't applied has no effect.
func TestInterpretChangesNothing(t *testing.T) {
	h := NewHeld(&podconfigv1.Cursor{Revision: 1}, nil)
	h.Apply(h.Interpret(ops(update(opAdd, "file", true, "a/1/x", "b/1/x"))))
	before := h.Resume()
	r := ops(update(opRemove, "file", true, "a"), setOf(true, pods("api", "b/1/x")))
	r.Cursor = &podconfigv1.Cursor{Revision: 2}
	first := h.Interpret(r)
	if diff := cmp.Diff(before, h.Resume(), protocmp.Transform()); diff != "" {
		t.Errorf("Interpret changed what is held (-before +after):\n%s", diff)
	}
	if diff := cmp.Diff(lines(first.Ops), lines(h.Interpret(r).Ops)); diff != "" {
		t.Errorf("a second Interpret tells something else (-first +second):\n%s", diff)
	}
}

// TestBegin checks the request of the next stream.
func TestBegin(t *testing.T) {
	h := NewHeld(&podconfigv1.Cursor{InstanceId: "i", Revision: 1}, []*podconfigv1.KnownPod{{Uid: "z", Source: "http"}})
	steps := []struct {
		name                   string
		revision               *Revision
		cursor                 uint64
		moved, changed, filled bool
	}{
		{"ops move the cursor", &Revision{Updates: []*podconfigv1.PodUpdate{update(opAdd, "file", true, "a/1/x")}, Cursor: at(2)}, 2, true, true, true},
		{"synced may not", &Revision{Synced: synced("file", "http").Synced, Cursor: at(2)}, 2, false, true, false},
		{"a heartbeat tells what is known", heartbeat("file", "http"), 2, false, false, false},
		{"or moves it", &Revision{Heartbeat: heartbeat("file", "-http").Heartbeat, Cursor: at(5)}, 5, true, true, false},
	}
	for _, step := range steps {
		o := h.Interpret(step.revision)
		h.Apply(o)
		if o.Moved != step.moved || o.ReadinessChanged != step.changed || len(o.Ops) > 0 != step.filled || h.Cursor().GetRevision() != step.cursor {
			t.Errorf("%s: moved=%v, changed=%v, %d ops, cursor %v", step.name, o.Moved, o.ReadinessChanged, len(o.Ops), h.Cursor())
		}
	}
	if ready := h.Ready(); h.Count("file") != 1 || h.Count("api") != 0 || len(ready) != 2 || !ready["file"] || ready["http"] {
		t.Errorf("%d pods of file, %d of api, ready: %v", h.Count("file"), h.Count("api"), h.Ready())
	}
	base := &podconfigv1.WatchPodUpdatesRequest{Consumer: "c"}
	want := &podconfigv1.WatchPodUpdatesRequest{Consumer: "c", ResumeAfter: at(5), KnownPods: []*podconfigv1.KnownPod{
		{Uid: "a", Source: "file", Namespace: "default", Name: "a", SpecDigest: "1", StatusDigest: "x"}, {Uid: "z", Source: "http"},
	}}
	if diff := cmp.Diff(want, h.Begin(base), protocmp.Transform()); diff != "" {
		t.Errorf("the request (-want +got):\n%s", diff)
	}
	if len(base.GetKnownPods()) > 0 || len(h.Ready()) > 0 {
		t.Errorf("the request before it is changed to %v, or readiness is kept: %v", base, h.Ready())
	}
}

func at(revision uint64) *podconfigv1.Cursor {
	return &podconfigv1.Cursor{InstanceId: "i", Revision: revision, View: "v"}
}
