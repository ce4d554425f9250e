package client

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

const set = podconfigv1.PodOperation_POD_OPERATION_SET

// change reads "uid" or "uid/spec" or "uid/spec/status" or "uid/spec/status/deleted".
func change(op Op, source string, ready bool, pods ...string) Change {
	c := Change{Op: op, Source: source, SourceReady: ready}
	for _, text := range pods {
		fields := append(strings.Split(text, "/"), "", "", "")
		p := Pod{UID: types.UID(fields[0]), Source: source, SpecDigest: fields[1], StatusDigest: fields[2], Object: &v1.Pod{}}
		if fields[3] == "deleted" {
			now := metav1.Now()
			p.Object.DeletionTimestamp = &now
		}
		c.Pods = append(c.Pods, p)
	}
	return c
}

// setOf is a SET with the pods of several sources.
func setOf(ready bool, changes ...Change) Change {
	c := Change{Op: set, Source: "file", SourceReady: ready}
	for _, part := range changes {
		c.Pods = append(c.Pods, part.Pods...)
	}
	return c
}

func syncedEvent(ready ...string) Event {
	e := Event{Synced: true}
	for _, name := range []string{"file", "api"} {
		e.Sources = append(e.Sources, Source{Name: name, Ready: strings.Contains(strings.Join(ready, " "), name)})
	}
	return e
}

func ops(changes ...Change) Event { return Event{Ops: changes} }

// TestInterpret follows what a consumer is given for what the stream says. The last event's outcome is compared.
func TestInterpret(t *testing.T) {
	file, api := change(Add, "file", true, "f1/a/x", "f2/a/x", "f3/a/x"), change(Add, "api", true, "a1/a/x")
	for _, tc := range []struct {
		name   string
		events []Event
		want   []string
	}{
		{"ops pass", []Event{ops(file, api)}, []string{"ADD file: f1 f2 f3", "ADD api: a1"}},
		{"a SET of what is held is nothing", []Event{ops(file, api), ops(setOf(true, file, api))}, nil},
		{"a SET becomes what it changes", []Event{ops(file), ops(setOf(true,
			change(set, "file", true, "f1/b/x", "f2/a/y", "f3/c/x/deleted", "f4/a/x"), api))},
			[]string{"ADD api: a1", "ADD file: f4", "UPDATE file: f1", "DELETE file: f3", "RECONCILE file: f2"}},
		{"what is missing in a SET is removed", []Event{ops(file, api), ops(setOf(true, change(set, "file", true, "f2/a/x")))},
			[]string{"REMOVE api: a1", "REMOVE file: f1 f3"}},
		{"fragments of a SET are one", []Event{ops(file, api), ops(setOf(true, change(set, "file", true, "f1/a/x", "f2/a/x")),
			setOf(true, change(set, "file", true, "f3/a/x"), api))}, nil},
		{"what is missing of a source that isn't ready stays", []Event{ops(change(Restore, "file", false, "f1/a/x")), ops(setOf(false))}, nil},
		{"until the source becomes ready", []Event{ops(change(Restore, "file", false, "f1/a/x", "f2/a/x")), ops(setOf(false)),
			ops(change(Add, "file", true, "f2/a/x"))}, []string{"REMOVE file: f1", "ADD file: f2"}},
		{"or is said to be on a new stream", []Event{ops(change(Restore, "file", false, "f1/a/x")), ops(setOf(false)), syncedEvent("file")},
			[]string{"REMOVE file: f1"}},
		{"another source's readiness is none of its", []Event{ops(change(Restore, "file", false, "f1/a/x")), ops(setOf(false)),
			ops(change(Add, "api", true))}, []string{"ADD api:"}},
		{"a REMOVE beside a SET isn't said twice", []Event{ops(file), ops(change(Remove, "file", true, "f1"),
			setOf(true, change(set, "file", true, "f2/a/x", "f3/a/x")))}, []string{"REMOVE file: f1"}},
		{"a pod that moved to another source, and is being deleted there", []Event{ops(change(Add, "file", true, "p/a/x")),
			ops(setOf(true, change(set, "api", true, "p/b/x/deleted")))}, []string{"REMOVE file: p", "ADD api: p"}},
		{"a pod that moved to another source by REMOVE and SET", []Event{ops(change(Add, "file", true, "p/a/x")),
			ops(change(Remove, "file", true, "p"), setOf(true, change(set, "api", true, "p/a/x")))}, []string{"REMOVE file: p", "ADD api: p"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := newHeld(WatchOptions{})
			var got []string
			for _, e := range tc.events {
				e.Ops = h.interpret(e)
				h.applied(e)
				got = nil
				for _, c := range e.Ops {
					line := fmt.Sprintf("%s %s:", strings.TrimPrefix(c.Op.String(), "POD_OPERATION_"), c.Source)
					for _, p := range c.Pods {
						line += " " + string(p.UID)
					}
					got = append(got, line)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("the consumer is given (-want +got):\n%s", diff)
			}
		})
	}
}

// TestInterpretNamesWhatIsRemoved: podconfigd may know a removed pod only by its UID; the client knows its name.
func TestInterpretNamesWhatIsRemoved(t *testing.T) {
	h := newHeld(WatchOptions{Known: []Pod{{UID: "u", Namespace: "prod", Name: "web", Source: "file"}}})
	out := h.interpret(ops(change(Remove, "file", true, "u")))
	if p := out[0].Pods[0]; p.Name != "web" || p.Namespace != "prod" || p.Object != nil {
		t.Errorf("the removed pod is %+v; want prod/web, without object", p)
	}
}

// TestHeldForgetsObjects: what the client remembers of a pod is small, and the consumer's object is the consumer's.
func TestHeldForgetsObjects(t *testing.T) {
	h := newHeld(WatchOptions{Known: []Pod{{UID: "k", Object: &v1.Pod{}}}})
	e := ops(change(Add, "file", true, "f1/a/x"))
	e.Ops = h.interpret(e)
	h.applied(e)
	for uid, p := range h.pods {
		if p.Object != nil {
			t.Errorf("the client keeps the object of %s; want it to keep references and digests only", uid)
		}
	}
	if e.Ops[0].Pods[0].Object == nil {
		t.Error("the consumer's pod has lost its object; want it untouched")
	}
}
