package service_test

import (
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/podstream/podstream/internal/access"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// scoped returns a consumer of these nodes and sources.
func scoped(nodes, sources []string) access.Caller {
	return access.Caller{Identity: "scoped", Role: access.Consumer, Peer: "10.0.0.2", Nodes: nodes, Sources: sources}
}

// TestScope: a caller with a scope sees no other pods and sources by any RPC, whatever its filter.
func TestScope(t *testing.T) {
	n := start(t, options{})
	n.set("file", "a: f1(node=n1) f2(node=n2)")
	n.set("api", "x: a1(node=n1) a2(node=n2)")
	for _, tc := range []struct {
		name           string
		nodes, sources []string
		pods           string
		// ready are the sources that it sees.
		ready string
	}{
		{"everything", nil, nil, "a1 a2 f1 f2", "file api"},
		{"a node", []string{"n1"}, nil, "a1 f1", "file api"},
		{"a source", nil, []string{"api"}, "a1 a2", "api"},
		{"both", []string{"n2"}, []string{"file", "http"}, "f2", "file"},
		{"nothing that there is", []string{"n3"}, []string{"http"}, "", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			as := n.as(scoped(tc.nodes, tc.sources))
			as.t = t
			seen := map[string]bool{}
			for _, uid := range strings.Fields(tc.pods) {
				seen[uid] = true
			}
			if got := uids(as.list(&podconfigv1.ListPodsRequest{}).GetPods()); got != tc.pods {
				t.Errorf("ListPods gives %q; want %q", got, tc.pods)
			}
			for _, uid := range []string{"f1", "f2", "a1", "a2"} {
				want := map[bool]codes.Code{true: codes.OK, false: codes.NotFound}[seen[uid]]
				_, err := as.api.GetPod(t.Context(), &podconfigv1.GetPodRequest{Ref: &podconfigv1.PodRef{Uid: uid}})
				wantCode(t, "GetPod of uid "+uid, err, want)
				_, err = as.api.GetPod(t.Context(), &podconfigv1.GetPodRequest{Ref: &podconfigv1.PodRef{Name: uid}})
				wantCode(t, "GetPod of name "+uid, err, want)
			}
			sources, err := as.api.ListSources(t.Context(), &podconfigv1.ListSourcesRequest{})
			if err != nil {
				t.Fatal(err)
			}
			var listed []string
			for _, s := range sources.GetSources() {
				listed = append(listed, s.GetName())
			}
			if got := strings.Join(listed, " "); got != tc.ready {
				t.Errorf("ListSources gives %q; want %q", got, tc.ready)
			}
			everything := &podconfigv1.PodFilter{Sources: []string{"file", "api"}, Nodes: []string{"n1", "n2"}}
			for _, filter := range []*podconfigv1.PodFilter{nil, everything} {
				s := as.watch(in(snapshot, nil))
				if filter != nil {
					s = as.watch(filtered(filter, nil))
				}
				got := map[string]bool{}
				var u unit
				for u.synced == nil {
					u = s.unit()
					for _, p := range u.pods() {
						got[p.GetRef().GetUid()] = true
					}
				}
				if len(got) != len(seen) {
					t.Errorf("the stream with the filter %v has the pods %v; want %v", filter, got, seen)
				}
				for uid := range got {
					if !seen[uid] {
						t.Errorf("the stream with the filter %v has pod %s, which is out of scope", filter, uid)
					}
				}
				var reported []string
				for _, s := range u.synced.GetSources() {
					reported = append(reported, s.GetName())
				}
				if got := strings.Join(reported, " "); got != tc.ready {
					t.Errorf("synced lists the sources %q; want %q", got, tc.ready)
				}
				s.cancel()
			}
		})
	}
}

// TestG10Scope: a scope is a mandatory filter: pods that enter it are sent as ADD, and pods that leave it as
// REMOVE. A cursor of another scope belongs to another view.
func TestG10Scope(t *testing.T) {
	n := start(t, options{})
	n.set("api", "x: pod()")
	n1 := n.as(scoped([]string{"n1"}, []string{"api"}))
	s := n1.watch(reference(nil))
	at := s.want("synced").cursor
	n.set("file", "a: other(node=n1)")
	n.set("api", "x: pod(node=n1)")
	s.want("ADD api: pod")
	n.set("api", "x: pod(node=n1,image=2)")
	s.want("UPDATE api: pod")
	n.set("api", "x: pod(node=n2,image=2)")
	s.want("REMOVE api: pod")
	n2 := n.as(scoped([]string{"n2"}, []string{"api"}))
	n2.watch(reference(at)).want("SET api: pod", "synced")
}

// TestScopeOfPages: the page token of a caller with a larger scope shows no more.
func TestScopeOfPages(t *testing.T) {
	n := start(t, options{})
	n.set("file", "a: a(node=n1) b(node=n2) c(node=n1) d(node=n2)")
	token := n.list(&podconfigv1.ListPodsRequest{PageSize: 1}).GetNextPageToken()
	resp := n.as(scoped([]string{"n1"}, nil)).list(&podconfigv1.ListPodsRequest{PageToken: token})
	if got := uids(resp.GetPods()); got != "c" {
		t.Errorf("the second page has %q; want c, the only one of n1 that is left", got)
	}
}
