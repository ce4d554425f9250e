package podexecapi

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/podstream/podstream/internal/access"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// fakeStats are the stats of a node with these pods. brief is the last request's.
type fakeStats struct {
	pods  []*podexecv1.PodStats
	err   error
	brief bool
}

func (f *fakeStats) Usage(_ context.Context, brief bool) (*podexecv1.NodeStats, []*podexecv1.PodStats, error) {
	f.brief = brief
	if f.pods == nil {
		return nil, nil, f.err
	}
	return &podexecv1.NodeStats{Name: "n1"}, f.pods, f.err
}

// The pods are those of the caller's scope and filter. A pod that isn't shown yet has no known source.
func TestGetStats(t *testing.T) {
	file, api := pod("default", "a", "1"), pod("shop", "b", "2")
	api.Source = "api"
	s := serve(file, api)
	f := &fakeStats{}
	for _, ref := range []*podconfigv1.PodRef{
		{Uid: "uid-1", Namespace: "default", Name: "a"}, {Uid: "uid-2", Namespace: "shop", Name: "b"}, {Uid: "uid-3", Namespace: "shop", Name: "c"},
	} {
		f.pods = append(f.pods, &podexecv1.PodStats{Ref: ref})
	}
	s.cfg.Stats = f
	for name, tc := range map[string]struct {
		caller access.Caller
		filter *podconfigv1.PodFilter
		want   []string
		node   string
	}{
		"all":          {access.Caller{Role: access.Inspector}, nil, []string{"a", "b", "c"}, "n1"},
		"one source":   {access.Caller{Role: access.Operator, Sources: []string{"api"}}, nil, []string{"b"}, "n1"},
		"a namespace":  {access.Caller{Role: access.Inspector}, &podconfigv1.PodFilter{Namespaces: []string{"shop"}}, []string{"b", "c"}, "n1"},
		"another node": {access.Caller{Role: access.Operator, Nodes: []string{"n2"}}, nil, nil, ""},
	} {
		resp, err := s.GetStats(as(t, tc.caller), &podexecv1.GetStatsRequest{Filter: tc.filter, OnlyCpuAndMemory: true})
		var got []string
		for _, p := range resp.GetPods() {
			got = append(got, p.GetRef().GetName())
		}
		if err != nil || !slices.Equal(got, tc.want) || resp.GetNode().GetName() != tc.node || !f.brief && tc.node != "" {
			t.Errorf("%s: %v, %v; want %v of %q", name, resp, err, tc.want, tc.node)
		}
	}
	if _, err := s.GetStats(as(t, access.Caller{}), &podexecv1.GetStatsRequest{}); status.Code(err) != codes.PermissionDenied {
		t.Errorf("without a role: %v", err)
	}
	wrong := &podexecv1.GetStatsRequest{Filter: &podconfigv1.PodFilter{Nodes: []string{"n1"}}}
	if _, err := s.GetStats(as(t, access.Caller{Role: access.Inspector}), wrong); status.Code(err) != codes.InvalidArgument {
		t.Errorf("a filter that isn't applied: %v", err)
	}
}

// A part of the values is returned with an error too; none is an error.
func TestGetStatsFails(t *testing.T) {
	s := serve()
	s.cfg.Stats = &fakeStats{err: errors.New("hunter2"), pods: []*podexecv1.PodStats{}}
	if resp, err := s.GetStats(as(t, access.Caller{Role: access.Inspector}), &podexecv1.GetStatsRequest{}); err != nil || resp.GetNode() == nil {
		t.Errorf("a part: %v, %v", resp, err)
	}
	s.cfg.Stats = &fakeStats{err: errors.New("hunter2")}
	_, err := s.GetStats(as(t, access.Caller{Role: access.Inspector}), &podexecv1.GetStatsRequest{})
	if status.Code(err) != codes.FailedPrecondition || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("none: %v", err)
	}
}
