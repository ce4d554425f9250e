package podexecapi

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/testing/protocmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/access"
	"github.com/podstream/podstream/internal/execsvc/decide/actions"
	"github.com/podstream/podstream/internal/execsvc/loop/restarts"
	"github.com/podstream/podstream/internal/execsvc/pod/podview"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// restarter is what restarts instead of an Agent.
type restarter func(uid types.UID, container string) (restarts.Accepted, error)

func (r restarter) RestartPod(_ context.Context, uid types.UID, container string) (restarts.Accepted, error) {
	return r(uid, container)
}

func TestRestartPod(t *testing.T) {
	s := serve(pod("default", "web", "1"), pod("default", "db", "2"))
	s.cfg.Restarts = restarter(func(uid types.UID, container string) (restarts.Accepted, error) {
		return restarts.Accepted{
			Containers:   []restarts.Container{{Name: "side", ID: "containerd://s0"}, {Name: container, ID: "containerd://" + string(uid), RestartCount: 3}},
			GraceSeconds: 30, Joined: true,
		}, nil
	})
	resp, err := s.RestartPod(as(t, operator), &podexecv1.RestartPodRequest{Ref: &podconfigv1.PodRef{Name: "web"}, Container: "main"})
	want := &podexecv1.RestartPodResponse{
		Ref: &podconfigv1.PodRef{Uid: "uid-1", Namespace: "default", Name: "web"}, Joined: true, GracePeriodSeconds: 30,
		Containers: []*podexecv1.RestartedContainer{
			{Name: "side", ContainerId: "containerd://s0"}, {Name: "main", ContainerId: "containerd://uid-1", RestartCount: 3},
		},
	}
	if diff := cmp.Diff(want, resp, protocmp.Transform()); err != nil || diff != "" {
		t.Errorf("error %v, response (-want +got):\n%s", err, diff)
	}
}

// Nothing is restarted for a caller who may not, and for a pod that the caller doesn't see.
func TestRestartPodRefuses(t *testing.T) {
	s := serve(pod("default", "web", "1"))
	s.cfg.Node = "n1"
	s.cfg.Restarts = restarter(func(types.UID, string) (restarts.Accepted, error) {
		t.Error("a restart was requested")
		return restarts.Accepted{}, nil
	})
	web := &podconfigv1.PodRef{Name: "web"}
	for _, tt := range []struct {
		name   string
		caller access.Caller
		req    *podexecv1.RestartPodRequest
		want   codes.Code
		word   string
	}{
		{"no role", access.Caller{}, &podexecv1.RestartPodRequest{Ref: web}, codes.PermissionDenied, "operator"},
		{"an inspector", access.Caller{Role: access.Inspector}, &podexecv1.RestartPodRequest{Ref: web}, codes.PermissionDenied, "operator"},
		{"a consumer", consumer, &podexecv1.RestartPodRequest{Ref: web}, codes.PermissionDenied, "operator"},
		{"another source", access.Caller{Role: access.Operator, Sources: []string{"api"}}, &podexecv1.RestartPodRequest{Ref: web}, codes.NotFound, "no pod"},
		{"another node", access.Caller{Role: access.Operator, Nodes: []string{"n2"}}, &podexecv1.RestartPodRequest{Ref: web}, codes.NotFound, "no pod"},
		{"another pod", operator, &podexecv1.RestartPodRequest{Ref: &podconfigv1.PodRef{Name: "db"}}, codes.NotFound, "no pod default/db"},
		{"another namespace", operator, &podexecv1.RestartPodRequest{Ref: &podconfigv1.PodRef{Name: "web", Namespace: "x"}}, codes.NotFound, "no pod x/web"},
		{"no pod", operator, &podexecv1.RestartPodRequest{}, codes.InvalidArgument, "ref"},
		{"a long name", operator, &podexecv1.RestartPodRequest{Ref: web, Container: strings.Repeat("x", 64)}, codes.InvalidArgument, "container"},
	} {
		_, err := s.RestartPod(as(t, tt.caller), tt.req)
		if status.Code(err) != tt.want || !strings.Contains(status.Convert(err).Message(), tt.word) {
			t.Errorf("%s: %v; want %s with %q", tt.name, err, tt.want, tt.word)
		}
	}
}

func TestRestartPodFails(t *testing.T) {
	for err, want := range map[error]codes.Code{
		fmt.Errorf("%w: x; it has main", actions.ErrUnknownContainer): codes.InvalidArgument,
		fmt.Errorf("%w: it has completed", actions.ErrNotRestartable): codes.FailedPrecondition,
		fmt.Errorf("%w: it has finished", restarts.ErrRefused):        codes.FailedPrecondition,
		restarts.ErrEnded:   codes.FailedPrecondition,
		ErrNoRuntime:        codes.FailedPrecondition,
		restarts.ErrTooMany: codes.ResourceExhausted,
		fmt.Errorf("%w: the disk is full", restarts.ErrNotStored): codes.Internal,
		errors.New("no \xff text"):                                codes.Internal,
	} {
		s := serve(pod("default", "web", "1"))
		s.cfg.Restarts = restarter(func(types.UID, string) (restarts.Accepted, error) { return restarts.Accepted{}, err })
		_, got := s.RestartPod(as(t, operator), &podexecv1.RestartPodRequest{Ref: &podconfigv1.PodRef{Uid: "uid-1"}})
		if text := status.Convert(got).Message(); status.Code(got) != want || !strings.Contains(text, "pod default/web: "+valid(err.Error())) {
			t.Errorf("%v: %v; want %s with the pod and the reason", err, got, want)
		}
	}
	_, err := New(Config{Board: podview.New()}).RestartPod(as(t, operator), &podexecv1.RestartPodRequest{})
	if status.Code(err) != codes.Unimplemented {
		t.Errorf("without an agent: %v; want UNIMPLEMENTED", err)
	}
}

// Before the container runtime has answered, a restart is refused.
func TestRestartPodWithoutRuntime(t *testing.T) {
	backend := &Backend{}
	s := serve(pod("default", "web", "1"))
	s.cfg.Restarts = backend
	req := &podexecv1.RestartPodRequest{Ref: &podconfigv1.PodRef{Uid: "uid-1"}}
	if _, err := s.RestartPod(as(t, operator), req); status.Code(err) != codes.FailedPrecondition || !strings.Contains(err.Error(), ErrNoRuntime.Error()) {
		t.Errorf("error %v; want %v", err, ErrNoRuntime)
	}
	backend.PublishRestarts(restarter(func(types.UID, string) (restarts.Accepted, error) { return restarts.Accepted{}, nil }))
	if _, err := s.RestartPod(as(t, operator), req); err != nil {
		t.Errorf("once it has answered: %v", err)
	}
}
