package podexecapi

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstream/podstream/internal/access"
	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
	"github.com/podstream/podstream/internal/execsvc/pod/podview"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// TestScope: what is out of a caller's scope doesn't exist for it, and without a role nothing does.
func TestScope(t *testing.T) {
	file, api := pod("default", "a", "1"), pod("default", "b", "2")
	api.Source = "api"
	s := serve(file, api)
	for _, tc := range []struct {
		name   string
		caller access.Caller
		want   []string
	}{
		{"no scope", access.Caller{Role: access.Consumer}, []string{"default/a=uid-1", "default/b=uid-2"}},
		{"one source", access.Caller{Role: access.Inspector, Sources: []string{"api"}}, []string{"default/b=uid-2"}},
		{"this node", access.Caller{Role: access.Consumer, Nodes: []string{"n2", "n1"}}, []string{"default/a=uid-1", "default/b=uid-2"}},
		{"another node", access.Caller{Role: access.Consumer, Nodes: []string{"n2"}}, nil},
	} {
		resp, err := s.ListPods(as(t, tc.caller), &podexecv1.ListPodsRequest{})
		if err != nil || !slices.Equal(keys(resp.GetPods()), tc.want) {
			t.Errorf("%s: %v, %v; want %v", tc.name, keys(resp.GetPods()), err, tc.want)
		}
		_, err = s.GetPod(as(t, tc.caller), &podexecv1.GetPodRequest{Ref: &podconfigv1.PodRef{Uid: "uid-1"}})
		if seen := slices.Contains(tc.want, "default/a=uid-1"); (err == nil) != seen || !seen && status.Code(err) != codes.NotFound {
			t.Errorf("%s: GetPod of the file's pod: %v; want it to be there: %v", tc.name, err, seen)
		}
	}
	if _, err := s.ListPods(t.Context(), &podexecv1.ListPodsRequest{}); status.Code(err) != codes.PermissionDenied {
		t.Errorf("without a caller: %v; want PERMISSION_DENIED", err)
	}
}

// TestDeployerSeesItsOwn: a deployer sees the pods of the source applied with its name, in full, and nothing else: no other pod
// whose author has written that name, no stream, no event.
func TestDeployerSeesItsOwn(t *testing.T) {
	written := func(name, uid, source, by string) podview.Pod {
		p := pod("default", name, uid)
		p.Source, p.Err = source, errors.New("what the runtime says")
		p.Object = &v1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{
			podmeta.SourceAnnotation: source, podmeta.AppliedByAnnotation: by,
		}}}
		return p
	}
	found := pod("default", "found", "5")
	found.Source = "applied"
	s := serve(written("a", "1", "applied", "alice"), written("b", "2", "applied", "bob"), written("c", "3", "file", "alice"),
		written("d", "4", "relay", "alice"), found)
	alice := access.Caller{Identity: "alice", Role: access.Deployer, Sources: []string{"applied"}}
	resp, err := s.ListPods(as(t, alice), &podexecv1.ListPodsRequest{})
	if err != nil || !slices.Equal(keys(resp.GetPods()), []string{"default/a=uid-1"}) || !strings.Contains(resp.String(), "what the runtime says") {
		t.Errorf("alice sees %v, %v; want a, in full", resp, err)
	}
	for _, uid := range []string{"uid-2", "uid-3", "uid-4", "uid-5"} {
		_, err := s.GetPod(as(t, alice), &podexecv1.GetPodRequest{Ref: &podconfigv1.PodRef{Uid: uid}})
		if status.Code(err) != codes.NotFound {
			t.Errorf("alice gets %s: %v; want NOT_FOUND", uid, err)
		}
	}
	// Access refuses these calls already; nothing is shown even so.
	v, err := s.view(as(t, alice), nil)
	if err != nil || v.sees("applied", "default", "a") {
		t.Errorf("alice's view has data that may be about others' pods: %v", err)
	}
	both := access.Caller{Identity: "alice", Role: access.Inspector}
	if resp, err := s.ListPods(as(t, both), &podexecv1.ListPodsRequest{}); err != nil || len(resp.GetPods()) != 5 {
		t.Errorf("as an inspector too, alice sees %v, %v; want all", keys(resp.GetPods()), err)
	}
}

// TestInspectorsSeeNoWords: what a container or the runtime says may hold a secret; that it says something stays visible.
func TestInspectorsSeeNoWords(t *testing.T) {
	const secret = "hunter2"
	p := pod("default", "a", "1")
	p.Err = errors.New("start: " + secret)
	states := []v1.ContainerStatus{{
		Name:                 "main",
		State:                v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: "CrashLoopBackOff", Message: secret}},
		LastTerminationState: v1.ContainerState{Terminated: &v1.ContainerStateTerminated{Reason: "Error", Message: secret}},
	}}
	p.Status = &v1.PodStatus{ContainerStatuses: states, InitContainerStatuses: states, EphemeralContainerStatuses: states}
	s := serve(p)
	for role, want := range map[access.Role]bool{access.Operator: true, access.Consumer: true, access.Inspector: false} {
		resp, err := s.ListPods(as(t, access.Caller{Role: role}), &podexecv1.ListPodsRequest{})
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(resp.String(), secret); got != want {
			t.Errorf("%s: the answer holds the secret: %v; want %v", role, got, want)
		}
		if !strings.Contains(resp.String(), "CrashLoopBackOff") {
			t.Errorf("%s: the answer lacks the reason", role)
		}
	}
	if p.Status.ContainerStatuses[0].State.Waiting.Message != secret {
		t.Error("the status itself was changed; want a copy")
	}
}
