package podexecapi

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/timestamppb"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/access"
	"github.com/podstream/podstream/internal/execsvc/pod/podview"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

var changed = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func pod(namespace, name, uid string) podview.Pod {
	return podview.Pod{
		UID: types.UID("uid-" + uid), Namespace: namespace, Name: name, Source: "file", Desired: true,
		State: podexecv1.WorkerState_WORKER_STATE_SYNCING, Changed: changed,
		Status: &v1.PodStatus{Phase: v1.PodRunning, PodIP: "10.88.0.2"},
	}
}

// serve serves a board with these pods, on node n1.
func serve(pods ...podview.Pod) *Server {
	b := podview.New()
	for _, p := range pods {
		b.Set(p)
	}
	return New(Config{Node: "n1", Board: b})
}

func as(t *testing.T, c access.Caller) context.Context { return access.NewContext(t.Context(), c) }

// keys are the pods as "namespace/name=uid", in order.
func keys(pods []*podexecv1.ObservedPod) []string {
	var out []string
	for _, p := range pods {
		out = append(out, fmt.Sprintf("%s/%s=%s", p.GetRef().GetNamespace(), p.GetRef().GetName(), p.GetRef().GetUid()))
	}
	return out
}

func list(t *testing.T, s *Server, req *podexecv1.ListPodsRequest) *podexecv1.ListPodsResponse {
	t.Helper()
	resp, err := s.ListPods(as(t, access.Caller{Role: access.Consumer}), req)
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

func TestListPodsSorts(t *testing.T) {
	s := serve(pod("b", "web", "1"), pod("a", "web", "3"), pod("a", "web-2", "4"), pod("a", "web", "2"))
	want := []string{"a/web=uid-2", "a/web=uid-3", "a/web-2=uid-4", "b/web=uid-1"}
	resp := list(t, s, &podexecv1.ListPodsRequest{})
	if diff := cmp.Diff(want, keys(resp.GetPods())); diff != "" {
		t.Errorf("pods (-want +got):\n%s", diff)
	}
	if resp.GetNextPageToken() != "" {
		t.Error("there is a next page")
	}
}

// However large the pages are, they show every pod once, and the last one says so.
func TestListPodsPages(t *testing.T) {
	var pods []podview.Pod
	for i := range 7 {
		pods = append(pods, pod("default", fmt.Sprintf("web-%d", i), fmt.Sprint(i)))
	}
	s := serve(pods...)
	want := keys(list(t, s, &podexecv1.ListPodsRequest{}).GetPods())
	for size := int32(1); size <= 8; size++ {
		var got []string
		req := &podexecv1.ListPodsRequest{PageSize: size}
		for pages := 1; ; pages++ {
			resp := list(t, s, req)
			if n := len(resp.GetPods()); n > int(size) || n == 0 {
				t.Fatalf("page of %d pods; want 1 to %d", n, size)
			}
			got = append(got, keys(resp.GetPods())...)
			if req.PageToken = resp.GetNextPageToken(); req.GetPageToken() == "" {
				break
			}
			if pages > len(pods) {
				t.Fatal("the pages don't end")
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("pages of %d (-want +got):\n%s", size, diff)
		}
	}
}

// A pod that goes between two pages takes no other with it.
func TestListPodsPagesWhilePodsGo(t *testing.T) {
	s := serve(pod("default", "a", "1"), pod("default", "b", "2"), pod("default", "c", "3"))
	first := list(t, s, &podexecv1.ListPodsRequest{PageSize: 2})
	s.cfg.Board.Remove("uid-1")
	s.cfg.Board.Remove("uid-2")
	second := list(t, s, &podexecv1.ListPodsRequest{PageSize: 2, PageToken: first.GetNextPageToken()})
	if diff := cmp.Diff([]string{"default/c=uid-3"}, keys(second.GetPods())); diff != "" {
		t.Errorf("second page (-want +got):\n%s", diff)
	}
}

func TestListPodsDefaultPage(t *testing.T) {
	var pods []podview.Pod
	for i := range defaultPageSize + 1 {
		pods = append(pods, pod("default", fmt.Sprintf("web-%04d", i), fmt.Sprint(i)))
	}
	resp := list(t, serve(pods...), &podexecv1.ListPodsRequest{Format: podconfigv1.PodFormat_POD_FORMAT_REFERENCE})
	if len(resp.GetPods()) != defaultPageSize || resp.GetNextPageToken() == "" {
		t.Errorf("page of %d pods, next %q; want %d and a next page", len(resp.GetPods()), resp.GetNextPageToken(), defaultPageSize)
	}
}

// A page stays below 1 MiB, unless a single pod is above that: then it comes alone.
func TestListPodsBoundsBytes(t *testing.T) {
	large := func(name string, bytes int) podview.Pod {
		p := pod("default", name, name)
		p.Status = &v1.PodStatus{Phase: v1.PodRunning, Message: strings.Repeat("x", bytes)}
		return p
	}
	s := serve(large("a", 600<<10), large("b", 600<<10), large("c", 2<<20), large("d", 10))
	var pages []string
	req := &podexecv1.ListPodsRequest{}
	for {
		resp := list(t, s, req)
		if len(resp.GetPods()) > 1 && proto.Size(resp) > 1<<20+1<<10 {
			t.Errorf("page of %d bytes", proto.Size(resp))
		}
		pages = append(pages, strings.Join(keys(resp.GetPods()), " "))
		if req.PageToken = resp.GetNextPageToken(); req.GetPageToken() == "" {
			break
		}
	}
	want := []string{"default/a=uid-a", "default/b=uid-b", "default/c=uid-c", "default/d=uid-d"}
	if diff := cmp.Diff(want, pages); diff != "" {
		t.Errorf("pages (-want +got):\n%s", diff)
	}
}

func TestListPodsFilters(t *testing.T) {
	other := pod("kube-system", "proxy", "3")
	other.Source = "api"
	s := serve(pod("default", "a", "1"), pod("default", "b", "2"), other)
	tests := []struct {
		name   string
		filter *podconfigv1.PodFilter
		want   []string
	}{
		{"empty", &podconfigv1.PodFilter{}, []string{"default/a=uid-1", "default/b=uid-2", "kube-system/proxy=uid-3"}},
		{"source", &podconfigv1.PodFilter{Sources: []string{"api"}}, []string{"kube-system/proxy=uid-3"}},
		{"namespace", &podconfigv1.PodFilter{Namespaces: []string{"default"}}, []string{"default/a=uid-1", "default/b=uid-2"}},
		{"names", &podconfigv1.PodFilter{Names: []string{"a", "proxy"}}, []string{"default/a=uid-1", "kube-system/proxy=uid-3"}},
		{"both", &podconfigv1.PodFilter{Names: []string{"a"}, Sources: []string{"api"}}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			resp := list(t, s, &podexecv1.ListPodsRequest{Filter: tt.filter})
			if diff := cmp.Diff(tt.want, keys(resp.GetPods())); diff != "" {
				t.Errorf("pods (-want +got):\n%s", diff)
			}
		})
	}
}

// A page that is full at the last match has no page after it, whatever else there is.
func TestListPodsNoEmptyLastPage(t *testing.T) {
	s := serve(pod("default", "a", "1"), pod("other", "b", "2"))
	resp := list(t, s, &podexecv1.ListPodsRequest{PageSize: 1, Filter: &podconfigv1.PodFilter{Namespaces: []string{"default"}}})
	if len(resp.GetPods()) != 1 || resp.GetNextPageToken() != "" {
		t.Errorf("%d pods, next page %q; want one and none", len(resp.GetPods()), resp.GetNextPageToken())
	}
}

func TestListPodsRefuses(t *testing.T) {
	tests := []struct {
		name string
		req  *podexecv1.ListPodsRequest
		want string
	}{
		{"negative page size", &podexecv1.ListPodsRequest{PageSize: -1}, "page_size"},
		{"token of another", &podexecv1.ListPodsRequest{PageToken: "!"}, "page_token"},
		{"label selector", &podexecv1.ListPodsRequest{Filter: &podconfigv1.PodFilter{LabelSelector: "a=b"}}, "filter.label_selector"},
		{"nodes", &podexecv1.ListPodsRequest{Filter: &podconfigv1.PodFilter{Nodes: []string{"n"}}}, "filter.nodes"},
		{"format of a later version", &podexecv1.ListPodsRequest{Format: 99}, "format"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			// Without pods: a mistake shows whatever there is.
			_, err := serve().ListPods(as(t, access.Caller{Role: access.Consumer}), tt.req)
			if status.Code(err) != codes.InvalidArgument || !strings.HasPrefix(status.Convert(err).Message(), tt.want+":") {
				t.Errorf("error %v; want INVALID_ARGUMENT for %s", err, tt.want)
			}
		})
	}
}

func TestFormats(t *testing.T) {
	p := pod("default", "web", "1")
	get := func(t *testing.T, format podconfigv1.PodFormat) *podexecv1.ObservedPod {
		t.Helper()
		resp, err := serve(p).GetPod(as(t, access.Caller{Role: access.Consumer}), &podexecv1.GetPodRequest{
			Ref: &podconfigv1.PodRef{Uid: "uid-1"}, Format: format,
		})
		if err != nil {
			t.Fatal(err)
		}
		if listed := list(t, serve(p), &podexecv1.ListPodsRequest{Format: format}).GetPods()[0]; !proto.Equal(listed, resp.GetPod()) {
			t.Errorf("ListPods shows %v, GetPod %v", listed, resp.GetPod())
		}
		return resp.GetPod()
	}
	for _, format := range []podconfigv1.PodFormat{podconfigv1.PodFormat_POD_FORMAT_UNSPECIFIED, podconfigv1.PodFormat_POD_FORMAT_JSON} {
		t.Run(format.String(), func(t *testing.T) {
			want := map[string]any{"phase": "Running", "podIP": "10.88.0.2"}
			if diff := cmp.Diff(want, get(t, format).GetJson().AsMap()); diff != "" {
				t.Errorf("status (-want +got):\n%s", diff)
			}
		})
	}
	t.Run("protobuf", func(t *testing.T) {
		var got v1.PodStatus
		if err := got.Unmarshal(get(t, podconfigv1.PodFormat_POD_FORMAT_PROTOBUF).GetProtobuf()); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(*p.Status, got); diff != "" {
			t.Errorf("status (-want +got):\n%s", diff)
		}
	})
	t.Run("reference", func(t *testing.T) {
		m := get(t, podconfigv1.PodFormat_POD_FORMAT_REFERENCE)
		if m.GetStatus() != nil || m.GetPhase() != "Running" || !m.GetChangedTime().AsTime().Equal(changed) {
			t.Errorf("pod %v; want its phase and time, and no status", m)
		}
	})
}

func TestObservedPod(t *testing.T) {
	p := pod("default", "web", "1")
	p.Source, p.State, p.Desired, p.Err = "api", podexecv1.WorkerState_WORKER_STATE_TERMINATING, false, errors.New("no")
	p.WaitsFor, p.Retry = "a backoff of 10s", changed.Add(10*time.Second)
	p.Pulls = []*podexecv1.ImagePull{{Image: "img", AskedTime: timestamppb.New(changed)}}
	got := list(t, serve(p), &podexecv1.ListPodsRequest{Format: podconfigv1.PodFormat_POD_FORMAT_REFERENCE}).GetPods()[0]
	want := &podexecv1.ObservedPod{
		Ref: &podconfigv1.PodRef{Uid: "uid-1", Namespace: "default", Name: "web"}, Source: "api", WorkerState: p.State, Phase: "Running",
		LastError: "no", ChangedTime: timestamppb.New(changed), WaitsFor: p.WaitsFor, RetryTime: timestamppb.New(p.Retry), Pulls: p.Pulls,
	}
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
		t.Errorf("pod (-want +got):\n%s", diff)
	}
}

func TestNothingObservedYet(t *testing.T) {
	p := pod("default", "web", "1")
	p.Status, p.Changed = nil, time.Time{}
	got := list(t, serve(p), &podexecv1.ListPodsRequest{}).GetPods()[0]
	if got.GetPhase() != "Pending" || got.GetStatus() != nil || got.GetChangedTime() != nil {
		t.Errorf("pod %v; want it pending, without status and time", got)
	}
}

// One pod's error that isn't text must not keep all pods from being shown.
func TestErrorThatIsNoText(t *testing.T) {
	p := pod("default", "web", "1")
	p.Err = errors.New("open \xff\xfe: no")
	resp := list(t, serve(p), &podexecv1.ListPodsRequest{})
	if _, err := proto.Marshal(resp); err != nil {
		t.Fatalf("encode: %v", err)
	}
	if got := resp.GetPods()[0].GetLastError(); got != "open \uFFFD: no" {
		t.Errorf("last_error %q", got)
	}
}
