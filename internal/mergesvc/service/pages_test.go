package service_test

import (
	"fmt"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	clocktesting "k8s.io/utils/clock/testing"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// TestListPodsManyPagers: a caller that pages through the pods isn't affected by other callers that started
// later, at other revisions.
func TestListPodsManyPagers(t *testing.T) {
	n := start(t, options{})
	var tokens []string
	for i := range 20 {
		n.set("file", fmt.Sprintf("a: a(image=%d) b() c()", i))
		tokens = append(tokens, n.list(&podconfigv1.ListPodsRequest{PageSize: 1}).GetNextPageToken())
	}
	for page, want := range []string{"b", "c"} {
		for i, token := range tokens {
			resp := n.list(&podconfigv1.ListPodsRequest{PageSize: 1, PageToken: token})
			if got := uids(resp.GetPods()); got != want || resp.GetRevision() != uint64(i+1) {
				t.Errorf("page %d of list %d has %q of revision %d; want %q of %d", page+2, i, got, resp.GetRevision(), want, i+1)
			}
			tokens[i] = resp.GetNextPageToken()
		}
	}
}

// TestListPodsTokenExpires: a state is kept for a minute after the last page, and no longer.
func TestListPodsTokenExpires(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Unix(1000, 0))
	n := start(t, options{clock: clock})
	n.set("file", "a: a() b() c()")
	first := n.list(&podconfigv1.ListPodsRequest{PageSize: 1}).GetNextPageToken()
	n.set("file", "a: d()")
	clock.Step(59 * time.Second)
	// The next page extends the time by another minute.
	second := n.list(&podconfigv1.ListPodsRequest{PageSize: 1, PageToken: first}).GetNextPageToken()
	clock.Step(59 * time.Second)
	if got := uids(n.list(&podconfigv1.ListPodsRequest{PageToken: second}).GetPods()); got != "c" {
		t.Errorf("the last page has %q; want c", got)
	}
	clock.Step(time.Second)
	_, err := n.api.ListPods(t.Context(), &podconfigv1.ListPodsRequest{PageToken: second})
	wantCode(t, "a token of a minute ago", err, codes.Aborted)
}

// TestGetPodOfMirror: of a static pod and its mirror pod, which have one name, the static pod is returned, for
// any order of their UIDs. Each is found by its UID, and the mirror pod by the name if the caller sees only
// that.
func TestGetPodOfMirror(t *testing.T) {
	n := start(t, options{})
	n.set("file", "a: web(uid=m) db(uid=b)")
	n.set("api", "x: web(uid=a,mirror=m)\ny: db(uid=z,mirror=b)")
	api := n.as(scoped(nil, []string{"api"}))
	for _, tc := range []struct {
		as   *node
		ref  *podconfigv1.PodRef
		want string
	}{
		{n, &podconfigv1.PodRef{Name: "web"}, "m"},
		{n, &podconfigv1.PodRef{Name: "db"}, "b"},
		{n, &podconfigv1.PodRef{Uid: "a"}, "a"},
		{n, &podconfigv1.PodRef{Uid: "m"}, "m"},
		{api, &podconfigv1.PodRef{Name: "web"}, "a"},
	} {
		resp, err := tc.as.api.GetPod(t.Context(), &podconfigv1.GetPodRequest{Ref: tc.ref})
		if err != nil || resp.GetPod().GetRef().GetUid() != tc.want {
			t.Errorf("GetPod of %v gives %v, %v; want uid %s", tc.ref, resp.GetPod().GetRef(), err, tc.want)
		}
	}
	_, err := api.api.GetPod(t.Context(), &podconfigv1.GetPodRequest{Ref: &podconfigv1.PodRef{Uid: "m"}})
	wantCode(t, "GetPod of a uid that is out of scope", err, codes.NotFound)
}
