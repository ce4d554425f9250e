package podexecapi

import (
	"context"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/execsvc/cri/runtime"
	"github.com/podstream/podstream/internal/execsvc/pod/podview"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// A pod that doesn't run yet isn't waited for, as with kubectl, and one that has ended isn't connected to.
func TestPortForwardPhases(t *testing.T) {
	for phase, want := range map[v1.PodPhase]string{
		"": "not running; its phase is Pending", v1.PodPending: "not running; its phase is Pending", v1.PodSucceeded: "the pod has ended", v1.PodFailed: "the pod has ended",
	} {
		p := twoContainers()
		if p.Status = nil; phase != "" {
			p.Status = &v1.PodStatus{Phase: phase}
		}
		s := New(Config{Board: boardOf(p), Ports: forwarder(nil)})
		_, _, _, err := carried(forward(t, s, forwardMessage(&podexecv1.PortForwardStart{
			Ref: &podconfigv1.PodRef{Name: "two"}, Port: &podexecv1.PortForwardStart_Number{Number: 80}, WithoutConnection: true,
		})))
		if status.Code(err) != codes.FailedPrecondition || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v; want %q", phase, err, want)
		}
	}
}

// A connection ends with its pod, and with podexecd.
func TestPortForwardEnds(t *testing.T) {
	for end, tc := range map[string]struct {
		do   func(*Server, *podview.Board)
		want codes.Code
	}{
		"the pod is removed": {func(_ *Server, b *podview.Board) { b.Remove("uid-two") }, codes.FailedPrecondition},
		"podexecd ends":      {func(s *Server, _ *podview.Board) { s.Close() }, codes.Unavailable},
	} {
		board, began := boardOf(twoContainers()), make(chan struct{})
		s := New(Config{Board: board, Ports: forwarder(func(ctx context.Context, _ runtime.PortInput) error {
			close(began)
			<-ctx.Done()
			return ctx.Err()
		})})
		stream := forward(t, s, startForward(80))
		<-began
		tc.do(s, board)
		if _, _, _, err := carried(stream); status.Code(err) != tc.want {
			t.Errorf("%s: %v; want %s", end, err, tc.want)
		}
	}
}

// A caller that has gone ends its connection.
func TestPortForwardEndsWithItsCaller(t *testing.T) {
	began, ended := make(chan struct{}), make(chan struct{})
	s := New(Config{Board: boardOf(twoContainers()), Ports: forwarder(func(ctx context.Context, _ runtime.PortInput) error {
		close(began)
		<-ctx.Done()
		close(ended)
		return ctx.Err()
	})})
	ctx, cancel := context.WithCancel(t.Context())
	stream, err := remote(t, s, operator).PortForward(ctx)
	if err == nil {
		err = stream.Send(startForward(80))
	}
	if err != nil {
		t.Fatal(err)
	}
	<-began
	cancel()
	<-ended
}
