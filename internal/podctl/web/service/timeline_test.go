package service_test

import (
	"testing"

	"connectrpc.com/connect"

	podwebv1 "github.com/podstream/podstream/internal/podctl/web/proto/podweb/v1"
	"github.com/podstream/podstream/internal/podctl/web/webtest"
)

// TestTimelineOfATab: a tab gets the last revisions, and then each one; ListRevisions has the others.
func TestTimelineOfATab(t *testing.T) {
	f := start(t, nil)
	for i := range uint64(20) {
		f.publish(i+1, opAdd, onNode(t, "a", "n1"))
	}
	tab := webtest.NewTab(t, f.client, sub("t", timelineTopic(5), ""))
	first := tab.Next()
	if got := first.GetTimeline().GetRevisions(); !first.GetReset_() || len(got) != 5 || got[0].GetSequence() != 16 || first.GetTimeline().GetBegin().GetSequence() != 1 {
		t.Errorf("the first delivery is %v", first)
	}
	f.publish(21, opRemove, onNode(t, "a", "n1"))
	if got := tab.Next().GetTimeline().GetRevisions(); len(got) != 1 || got[0].GetSequence() != 21 {
		t.Errorf("then it is %v", got)
	}
	cursor := tab.Cursors["t"]
	tab.Close()
	f.publish(22, opAdd, onNode(t, "b", "n1"))
	again := webtest.NewTab(t, f.client, sub("t", timelineTopic(5), cursor)).Next()
	if got := again.GetTimeline().GetRevisions(); again.GetReset_() || len(got) != 1 || got[0].GetSequence() != 22 {
		t.Errorf("after its cursor it gets %v", again)
	}

	ask := func(req *podwebv1.ListRevisionsRequest) []uint64 {
		t.Helper()
		r, err := f.client.ListRevisions(t.Context(), req)
		if err != nil || r.GetNewest() != 22 {
			t.Fatalf("ListRevisions: %v, %v", r, err)
		}
		var out []uint64
		for _, rev := range r.GetRevisions() {
			out = append(out, rev.GetSequence())
		}
		return out
	}
	b := f.board.Pods.Rows()
	var keyOfB string
	for key, row := range b {
		if row.GetName().GetName() == "b" {
			keyOfB = key
		}
	}
	for _, tc := range []struct {
		req         *podwebv1.ListRevisionsRequest
		n           int
		first, last uint64
	}{
		{&podwebv1.ListRevisionsRequest{}, 22, 1, 22},
		{&podwebv1.ListRevisionsRequest{Limit: 3}, 3, 20, 22},
		{&podwebv1.ListRevisionsRequest{Sequence: 20, Limit: 3}, 3, 17, 19},
		{&podwebv1.ListRevisionsRequest{Sequence: 2, Limit: 3}, 1, 1, 1},
		{&podwebv1.ListRevisionsRequest{Sequence: 1}, 0, 0, 0},
		{&podwebv1.ListRevisionsRequest{Forward: true, Limit: 2}, 2, 1, 2},
		{&podwebv1.ListRevisionsRequest{Sequence: 20, Forward: true}, 2, 21, 22},
		{&podwebv1.ListRevisionsRequest{PodKey: keyOfB}, 1, 22, 22},
		{&podwebv1.ListRevisionsRequest{PodKey: keyOfB, Sequence: 22}, 0, 0, 0},
		{&podwebv1.ListRevisionsRequest{PodKey: keyOfB, Forward: true}, 1, 22, 22},
	} {
		got := ask(tc.req)
		if len(got) != tc.n || tc.n > 0 && (got[0] != tc.first || got[tc.n-1] != tc.last) {
			t.Errorf("%v has %v; want %d from %d to %d", tc.req, got, tc.n, tc.first, tc.last)
		}
	}
	at, err := f.client.ListDesiredAt(t.Context(), &podwebv1.ListDesiredAtRequest{Sequence: 21})
	if err != nil || len(at.GetPods()) != 0 {
		t.Errorf("after entry 21 there are %v, %v", at, err)
	}
	_, err = f.client.ListDesiredAt(t.Context(), &podwebv1.ListDesiredAtRequest{Sequence: 99})
	wantCode(t, "an entry that doesn't exist", err, connect.CodeNotFound)
}
