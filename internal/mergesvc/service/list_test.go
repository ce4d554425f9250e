package service_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/podstream/podstream/internal/manifest"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

func (n *node) list(req *podconfigv1.ListPodsRequest) *podconfigv1.ListPodsResponse {
	n.t.Helper()
	resp, err := n.api.ListPods(context.Background(), req)
	if err != nil {
		n.t.Fatalf("ListPods: %v; want pods", err)
	}
	return resp
}

func uids(pods []*podconfigv1.Pod) string {
	var out []string
	for _, p := range pods {
		out = append(out, p.GetRef().GetUid())
	}
	return strings.Join(out, " ")
}

func wantCode(t *testing.T, what string, err error, want codes.Code) {
	t.Helper()
	if got := status.Code(err); got != want {
		t.Errorf("%s: %v; want %v", what, err, want)
	}
}

// TestListPodsPages: the pages of one list show one revision, sorted, while pods are added and removed.
func TestListPodsPages(t *testing.T) {
	n := start(t, options{})
	n.set("file", "a: c() a() d(ns=b) b() e(ns=a)")
	want := "e d a b c"
	var got []*podconfigv1.Pod
	token := ""
	for page := range 3 {
		resp := n.list(&podconfigv1.ListPodsRequest{Format: podconfigv1.PodFormat_POD_FORMAT_REFERENCE, PageSize: 2, PageToken: token})
		if resp.GetRevision() != 1 || resp.GetInstanceId() != n.hub.History().Instance().ID {
			t.Errorf("page %d is of revision %d of %s; want 1 of %s", page, resp.GetRevision(), resp.GetInstanceId(), n.hub.History().Instance().ID)
		}
		got, token = append(got, resp.GetPods()...), resp.GetNextPageToken()
		n.set("file", fmt.Sprintf("a: a(image=%d) other-%d()", page, page))
	}
	if token != "" || uids(got) != want {
		t.Errorf("three pages of two have %q and the token %q; want %q and no token", uids(got), token, want)
	}
	if resp := n.list(&podconfigv1.ListPodsRequest{}); uids(resp.GetPods()) != "a other-2" || resp.GetRevision() != 4 {
		t.Errorf("a new list has %q of revision %d; want \"a other-2\" of 4", uids(resp.GetPods()), resp.GetRevision())
	}
}

// TestListPodsLarge: a page ends at about 1 MiB, for any request. A larger pod has a separate page.
func TestListPodsLarge(t *testing.T) {
	n := start(t, options{})
	n.set("file", "a: a(pad=600) b(pad=300) c(pad=300) d(pad=1400) e()")
	var pages []string
	for token := "start"; token != ""; {
		resp := n.list(&podconfigv1.ListPodsRequest{
			Format: podconfigv1.PodFormat_POD_FORMAT_PROTOBUF, PageToken: strings.TrimPrefix(token, "start"),
		})
		pages, token = append(pages, uids(resp.GetPods())), resp.GetNextPageToken()
	}
	if diff := cmp.Diff([]string{"a b", "c", "d", "e"}, pages); diff != "" {
		t.Errorf("pages (-want +got):\n%s", diff)
	}
}

// TestListPodsTokenTooOld: a limited number of revisions is kept for lists. A token of another one is ABORTED.
func TestListPodsTokenTooOld(t *testing.T) {
	const kept = 32
	n := start(t, options{})
	var tokens []string
	for i := range kept + 1 {
		n.set("file", fmt.Sprintf("a: a(image=%d) b()", i))
		tokens = append(tokens, n.list(&podconfigv1.ListPodsRequest{PageSize: 1}).GetNextPageToken())
	}
	_, err := n.api.ListPods(context.Background(), &podconfigv1.ListPodsRequest{PageSize: 1, PageToken: tokens[0]})
	wantCode(t, "the token of the oldest of too many lists", err, codes.Aborted)
	for i, token := range tokens[1:] {
		if got := n.list(&podconfigv1.ListPodsRequest{PageToken: token}); uids(got.GetPods()) != "b" || got.GetRevision() != uint64(i+2) {
			t.Errorf("the second page of revision %d has %q of revision %d; want b", i+2, uids(got.GetPods()), got.GetRevision())
		}
	}
	other := start(t, options{})
	_, err = other.api.ListPods(context.Background(), &podconfigv1.ListPodsRequest{PageToken: tokens[kept]})
	wantCode(t, "a token of another instance", err, codes.Aborted)
	for _, token := range []string{"%", "x", base64.RawURLEncoding.EncodeToString([]byte("i -1 a")), base64.RawURLEncoding.EncodeToString([]byte("i x 1"))} {
		_, err := n.api.ListPods(context.Background(), &podconfigv1.ListPodsRequest{PageToken: token})
		wantCode(t, "the token "+token, err, codes.InvalidArgument)
	}
}

// TestListPodsFilter: the fields are ANDed, the entries of one are ORed.
func TestListPodsFilter(t *testing.T) {
	n := start(t, options{})
	n.set("file", "a: web(uid=f1,label.app=web,node=n1) db(uid=f2,ns=prod,label.app=db,node=n1)")
	n.set("api", "x: api(uid=a1,ns=prod,label.app=web,node=n2) bare(uid=a2)")
	for _, tc := range []struct {
		name   string
		filter *podconfigv1.PodFilter
		want   string
	}{
		{"none", nil, "a2 f1 a1 f2"},
		{"empty", &podconfigv1.PodFilter{}, "a2 f1 a1 f2"},
		{"source", &podconfigv1.PodFilter{Sources: []string{"file"}}, "f1 f2"},
		{"sources", &podconfigv1.PodFilter{Sources: []string{"file", "api"}}, "a2 f1 a1 f2"},
		{"node", &podconfigv1.PodFilter{Nodes: []string{"n1"}}, "f1 f2"},
		{"namespace", &podconfigv1.PodFilter{Namespaces: []string{"prod"}}, "a1 f2"},
		{"names", &podconfigv1.PodFilter{Names: []string{"web", "bare"}}, "a2 f1"},
		{"label", &podconfigv1.PodFilter{LabelSelector: "app=web"}, "f1 a1"},
		{"labels", &podconfigv1.PodFilter{LabelSelector: "app,app!=web"}, "f2"},
		{"no label", &podconfigv1.PodFilter{LabelSelector: "!app"}, "a2"},
		{"all at once", &podconfigv1.PodFilter{Sources: []string{"api"}, Namespaces: []string{"prod"}, LabelSelector: "app in (web,db)"}, "a1"},
		{"nothing matches", &podconfigv1.PodFilter{Sources: []string{"http"}}, ""},
	} {
		if got := uids(n.list(&podconfigv1.ListPodsRequest{Filter: tc.filter}).GetPods()); got != tc.want {
			t.Errorf("filter by %s: %q; want %q", tc.name, got, tc.want)
		}
		// Page by page it is the same, without an empty page at the end.
		var paged []*podconfigv1.Pod
		for token := ""; ; {
			resp := n.list(&podconfigv1.ListPodsRequest{Filter: tc.filter, PageSize: 1, PageToken: token})
			paged, token = append(paged, resp.GetPods()...), resp.GetNextPageToken()
			if token == "" {
				break
			}
		}
		if got := uids(paged); got != tc.want {
			t.Errorf("filter by %s, page by page: %q; want %q", tc.name, got, tc.want)
		}
	}
}

func TestGetPod(t *testing.T) {
	n := start(t, options{})
	n.set("file", "a: web(uid=u1) db(uid=u2,ns=prod)")
	for _, tc := range []struct {
		name string
		ref  *podconfigv1.PodRef
		want string
		code codes.Code
	}{
		{"by uid", &podconfigv1.PodRef{Uid: "u2"}, "u2", codes.OK},
		{"the uid counts, not the name", &podconfigv1.PodRef{Uid: "u2", Name: "web"}, "u2", codes.OK},
		{"by name", &podconfigv1.PodRef{Namespace: "prod", Name: "db"}, "u2", codes.OK},
		{"by name in the default namespace", &podconfigv1.PodRef{Name: "web"}, "u1", codes.OK},
		{"no such uid", &podconfigv1.PodRef{Uid: "u3"}, "", codes.NotFound},
		{"no such name", &podconfigv1.PodRef{Name: "db"}, "", codes.NotFound},
		{"neither", &podconfigv1.PodRef{Namespace: "prod"}, "", codes.InvalidArgument},
		{"nothing", nil, "", codes.InvalidArgument},
	} {
		t.Run(tc.name, func(t *testing.T) {
			resp, err := n.api.GetPod(context.Background(), &podconfigv1.GetPodRequest{Ref: tc.ref})
			wantCode(t, "GetPod", err, tc.code)
			if got := resp.GetPod().GetRef().GetUid(); got != tc.want {
				t.Errorf("GetPod gives %q; want %q", got, tc.want)
			}
			if tc.code == codes.OK && (resp.GetRevision() != 1 || resp.GetPod().GetJson() == nil) {
				t.Errorf("GetPod gives revision %d and content %T; want 1 and JSON", resp.GetRevision(), resp.GetPod().GetContent())
			}
		})
	}
}

func TestListSources(t *testing.T) {
	n := start(t, options{})
	n.set("file", "a: web() gone()\nb: [warning: odd]")
	n.set("file", "a: web() [held] [error: bad]\nb: [warning: odd]\nc: web(uid=other)\nd~: [ignored: a backup]")
	n.hub.Apply(manifest.Set{Source: "api", Err: fmt.Errorf("etcd is down")})
	resp, err := n.api.ListSources(context.Background(), &podconfigv1.ListSourcesRequest{})
	if err != nil {
		t.Fatalf("ListSources: %v; want the sources", err)
	}
	finding := func(severity podconfigv1.FindingSeverity, origin, message string) *podconfigv1.Finding {
		return &podconfigv1.Finding{Severity: severity, Origin: origin, Message: message}
	}
	bad := finding(podconfigv1.FindingSeverity_FINDING_SEVERITY_ERROR, "a", "bad")
	bad.KeptPods = []*podconfigv1.PodRef{{Uid: "gone", Namespace: "default", Name: "gone"}}
	clash := finding(podconfigv1.FindingSeverity_FINDING_SEVERITY_CONFLICT, "c",
		"pod default/web is defined by source file in a already, which has precedence; this one waits until that is gone")
	clash.Document, clash.Field = 1, "metadata.name"
	want := []*podconfigv1.Source{
		{Name: "file", Location: "/etc/manifests", Ready: true, ReadyRevision: 1, PodCount: 2, Findings: []*podconfigv1.Finding{
			bad, finding(podconfigv1.FindingSeverity_FINDING_SEVERITY_WARNING, "b", "odd"),
			finding(podconfigv1.FindingSeverity_FINDING_SEVERITY_IGNORED, "d~", "a backup"), clash,
		}},
		{Name: "api", LastError: "etcd is down"},
	}
	if diff := cmp.Diff(want, resp.GetSources(), protocmp.Transform(),
		protocmp.IgnoreFields(&podconfigv1.Source{}, "last_read_time", "last_heard_time", "unheard_for")); diff != "" {
		t.Errorf("sources (-want +got):\n%s", diff)
	}
	if got := resp.GetSources()[0].GetLastReadTime().AsTime().Unix(); got != 2 {
		t.Errorf("file was last read in second %d; want 2", got)
	}
	file, api := resp.GetSources()[0], resp.GetSources()[1]
	if file.GetLastHeardTime().AsTime().Unix() != 2 || file.GetUnheardFor().AsDuration() < time.Hour {
		t.Errorf("file was last heard from in second %d, %v before; want 2, and all the time since", file.GetLastHeardTime().GetSeconds(),
			file.GetUnheardFor().AsDuration())
	}
	if api.LastHeardTime != nil || api.UnheardFor != nil {
		t.Errorf("api, which was never read well, was heard from at %v", api.GetLastHeardTime())
	}
}
