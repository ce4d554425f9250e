package board_test

import (
	"strings"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/podstream/podstream/internal/podctl/web/board"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// TestObservedBytes: the observed pods are bounded in bytes. One that is removed, or gets smaller, makes room, and one that gets too
// large is dropped.
func TestObservedBytes(t *testing.T) {
	b := board.New(board.Config{Clock: clocktesting.NewFakePassiveClock(time.Unix(0, 0)), ObservedBytes: 2000})
	pod := func(uid string, size int) *podexecv1.ObservedPod {
		return &podexecv1.ObservedPod{Ref: &podconfigv1.PodRef{Uid: uid, Namespace: "default", Name: uid}, LastError: strings.Repeat("x", size)}
	}
	want := func(what string, uids ...string) {
		t.Helper()
		var got []string
		for _, uid := range []string{"a", "b", "c"} {
			_, observed := b.Pod(uid)
			if _, shown := b.UID(board.Key("pod", uid)); shown != (observed != nil) {
				t.Errorf("%s: pod %s is kept: %v, and shown: %v", what, uid, observed != nil, shown)
			}
			if observed != nil {
				got = append(got, uid)
			}
		}
		if strings.Join(got, " ") != strings.Join(uids, " ") {
			t.Errorf("%s: the pods %v are kept; want %v", what, got, uids)
		}
	}
	put := func(pods ...*podexecv1.ObservedPod) { b.ApplyObserved(pods, nil, false) }
	put(pod("a", 800), pod("b", 800), pod("c", 800))
	want("three pods", "a", "b")
	b.ApplyObserved([]*podexecv1.ObservedPod{pod("c", 800)}, []*podconfigv1.PodRef{{Uid: "a"}}, false)
	want("c in the place of a", "b", "c")
	put(pod("c", 10), pod("a", 800))
	want("c is smaller", "a", "b", "c")
	put(pod("a", 3000))
	want("a is too large", "b", "c")
	b.ApplyObserved([]*podexecv1.ObservedPod{pod("b", 1900)}, nil, true)
	want("all pods in one message", "b")
}
