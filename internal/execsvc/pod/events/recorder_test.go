package events_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/podstream/podstream/internal/execsvc/pod/events"
)

func pod(uid string) *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{
		UID: types.UID(uid), Namespace: "ns", Name: "pod-" + uid, Annotations: map[string]string{"kubernetes.io/config.source": "file"},
	}}
}

// brief formats events: "2 pulled" is one with the message "pulled" that occurred twice.
func brief(list []events.Event) (out []string) {
	for _, e := range list {
		out = append(out, fmt.Sprintf("%d %s", e.Count, e.Message))
	}
	return out
}

func TestRecord(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(time.Unix(1000, 0))
	r := events.New(events.Config{Clock: clock})
	r.Record(pod("a"), "main", events.Warning, events.BackOffStart, "wait")
	clock.SetTime(time.Unix(1010, 0))
	r.Record(pod("a"), "main", events.Warning, events.BackOffStart, "wait")
	got, last, _ := r.After(0)
	want := []events.Event{{
		UID: "a", Namespace: "ns", Name: "pod-a", Source: "file", Container: "main", Type: "Warning", Reason: "BackOff", Message: "wait",
		Count: 2, First: time.Unix(1000, 0), Last: time.Unix(1010, 0),
	}}
	if diff := cmp.Diff(want, got); diff != "" || last != 2 {
		t.Errorf("the events, at position %d, want 2 (-want +got):\n%s", last, diff)
	}
}

// TestOneKind: two events are one only if they are equal except for the time.
func TestOneKind(t *testing.T) {
	r := events.New(events.Config{})
	r.Record(pod("a"), "main", events.Normal, "Reason", "m")
	r.Record(pod("b"), "main", events.Normal, "Reason", "m")
	r.Record(pod("a"), "side", events.Normal, "Reason", "m")
	r.Record(pod("a"), "main", events.Warning, "Reason", "m")
	r.Record(pod("a"), "main", events.Normal, "Other", "m")
	r.Record(pod("a"), "main", events.Normal, "Reason", "n")
	if got, _, _ := r.After(0); len(got) != 6 {
		t.Errorf("%d events are told apart; want 6", len(got))
	}
}

// TestAfter: a reader with a position gets the events since, each once, in its newest state.
func TestAfter(t *testing.T) {
	r := events.New(events.Config{})
	record := func(messages ...string) {
		for _, m := range messages {
			r.Record(pod("a"), "", events.Normal, "R", m)
		}
	}
	record("one", "two", "three")
	got, at, more := r.After(0)
	if diff := cmp.Diff([]string{"1 one", "1 two", "1 three"}, brief(got)); diff != "" {
		t.Errorf("all events (-want +got):\n%s", diff)
	}
	select {
	case <-more:
		t.Error("there is said to be more; nothing has happened")
	default:
	}
	record("two", "four", "two")
	<-more
	since, last, _ := r.After(at)
	if diff := cmp.Diff([]string{"1 four", "3 two"}, brief(since)); diff != "" {
		t.Errorf("what happened since (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"1 one", "1 two", "1 three"}, brief(got)); diff != "" {
		t.Errorf("what was handed out before has changed (-want +got):\n%s", diff)
	}
	for _, position := range []uint64{last, last + 100} {
		if none, now, _ := r.After(position); len(none) > 0 || now != last {
			t.Errorf("after position %d there are %v, and the newest is %d; want nothing, and %d", position, brief(none), now, last)
		}
	}
}

// TestKeep: beyond the bound, the oldest events are dropped.
func TestKeep(t *testing.T) {
	r := events.New(events.Config{Keep: 3})
	for _, m := range []string{"one", "two", "three", "one", "four", "five"} {
		r.Record(pod("a"), "", events.Normal, "R", m)
	}
	got, _, _ := r.After(0)
	if diff := cmp.Diff([]string{"2 one", "1 four", "1 five"}, brief(got)); diff != "" {
		t.Errorf("what is kept (-want +got):\n%s", diff)
	}
	// A dropped event is counted from one again.
	r.Record(pod("a"), "", events.Normal, "R", "two")
	got, _, _ = r.After(0)
	if diff := cmp.Diff([]string{"1 four", "1 five", "1 two"}, brief(got)); diff != "" {
		t.Errorf("what is kept (-want +got):\n%s", diff)
	}
}

// TestMessages: a container's output in a message makes no event too large to keep, or impossible to send.
func TestMessages(t *testing.T) {
	for name, tc := range map[string]struct{ message, want string }{
		"text":          {"it's 5 µs", "it's 5 µs"},
		"binary":        {"exit \xff\xfe!", "exit \uFFFD!"},
		"long":          {strings.Repeat("x", 5000), strings.Repeat("x", 4096) + "…"},
		"cut in a rune": {"x" + strings.Repeat("é", 3000), "x" + strings.Repeat("é", 2047) + "…"},
		"half binary":   {strings.Repeat("a\xff", 2000), strings.Repeat("a\uFFFD", 1024) + "…"},
		"long binary":   {strings.Repeat("\x80", 5000), "\uFFFD…"},
	} {
		sink := &sink{}
		r := events.New(events.Config{Sink: sink})
		r.Record(pod("a"), "", events.Normal, "R", tc.message)
		got, _, _ := r.After(0)
		if got[0].Message != tc.want || !utf8.ValidString(got[0].Message) {
			t.Errorf("%s: the message is %.40q, of %d bytes; want %.40q, of %d", name,
				got[0].Message, len(got[0].Message), tc.want, len(tc.want))
		}
		if len(sink.got) != 1 || sink.got[0] != "a//Normal/R/"+tc.want {
			t.Errorf("%s: the sink has %.60q; want the same message", name, sink.got)
		}
	}
}

type sink struct {
	mu  sync.Mutex
	got []string
}

func (s *sink) Record(pod *v1.Pod, container, eventType, reason, message string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.got = append(s.got, strings.Join([]string{string(pod.UID), container, eventType, reason, message}, "/"))
}

// TestSink: the sink gets every event, those that are counted as one too: it counts by itself.
func TestSink(t *testing.T) {
	sink := &sink{}
	r := events.New(events.Config{Sink: sink})
	r.Record(pod("a"), "main", events.Normal, events.StartedContainer, "up")
	r.Record(pod("a"), "main", events.Normal, events.StartedContainer, "up")
	r.Record(pod("b"), "", events.Warning, events.FailedSync, "no")
	want := []string{"a/main/Normal/Started/up", "a/main/Normal/Started/up", "b//Warning/FailedSync/no"}
	if diff := cmp.Diff(want, sink.got); diff != "" {
		t.Errorf("what the sink has (-want +got):\n%s", diff)
	}
}

// TestNilRecorder: a nil Recorder needs no check.
func TestNilRecorder(t *testing.T) {
	var r *events.Recorder
	r.Record(pod("a"), "", events.Normal, "R", "m")
}

// TestConcurrent: recorders and readers don't disturb each other; a reader who follows sees each event.
func TestConcurrent(t *testing.T) {
	const writers, each = 4, 200
	r := events.New(events.Config{})
	var writing sync.WaitGroup
	for w := range writers {
		writing.Go(func() {
			for i := range each {
				r.Record(pod(fmt.Sprint(w)), "", events.Normal, "R", fmt.Sprint(i%50))
			}
		})
	}
	counts := map[string]int32{}
	for at, total := uint64(0), int32(0); total < writers*each; {
		got, now, more := r.After(at)
		for _, e := range got {
			key := string(e.UID) + "/" + e.Message
			total += e.Count - counts[key]
			counts[key] = e.Count
		}
		if at = now; total < writers*each {
			<-more
		}
	}
	writing.Wait()
	if len(counts) != writers*50 {
		t.Errorf("the reader saw %d events; want %d", len(counts), writers*50)
	}
}

// BenchmarkAfter has one event that repeats for weeks beside one that doesn't: to look costs the same.
func BenchmarkAfter(b *testing.B) {
	r := events.New(events.Config{})
	r.Record(pod("a"), "", events.Normal, "R", "once")
	for range 1_000_000 {
		r.Record(pod("a"), "", events.Normal, "R", "again")
	}
	for b.Loop() {
		if got, _, _ := r.After(0); len(got) != 2 {
			b.Fatalf("there are %d events; want 2", len(got))
		}
	}
}

// TestOnePodPushesNoOtherOut: a container that words each failure of its probe again doesn't have the events of others
// forgotten.
func TestOnePodPushesNoOtherOut(t *testing.T) {
	r := events.New(events.Config{Keep: 20, KeepPerPod: 5})
	r.Record(pod("quiet"), "", events.Normal, "R", "said once")
	for i := range 100 {
		r.Record(pod("loud"), "main", events.Warning, events.ContainerUnhealthy, fmt.Sprint(i))
	}
	got, _, _ := r.After(0)
	if diff := cmp.Diff([]string{"1 said once", "1 95", "1 96", "1 97", "1 98", "1 99"}, brief(got)); diff != "" {
		t.Errorf("what is kept (-want +got):\n%s", diff)
	}
	for i := range 20 {
		r.Record(pod(fmt.Sprint("other", i)), "", events.Normal, "R", "m")
	}
	// All of the loud one have gone: it begins again.
	for i := range 5 {
		r.Record(pod("loud"), "main", events.Warning, events.ContainerUnhealthy, fmt.Sprint(i))
	}
	got, _, _ = r.After(0)
	if diff := cmp.Diff([]string{"1 0", "1 1", "1 2", "1 3", "1 4"}, brief(got[len(got)-5:])); diff != "" || len(got) != 20 {
		t.Errorf("%d are kept; the last (-want +got):\n%s", len(got), diff)
	}
}
