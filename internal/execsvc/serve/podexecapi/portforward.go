package podexecapi

import (
	"context"
	"errors"
	"io"

	"google.golang.org/grpc"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/access"
	"github.com/podstream/podstream/internal/execsvc/cri/runtime"
	"github.com/podstream/podstream/internal/execsvc/pod/podview"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// PortForwarder connects to ports of pods: a runtime.Runtime.
type PortForwarder interface {
	ForwardPort(ctx context.Context, in runtime.PortInput) error
}

type forwardStream = grpc.BidiStreamingServer[podexecv1.PortForwardRequest, podexecv1.PortForwardResponse]

// errPodEnded is the cause of the end of a connection whose pod has ended.
var errPodEnded = errors.New("the pod has ended")

// PortForward is part of podexec.v1.PodExecService.
func (s *Server) PortForward(stream forwardStream) error {
	if s.cfg.Ports == nil {
		return unimplemented("this podexecd forwards no ports")
	}
	if err := permit(stream.Context(), podexecv1.PodExecService_PortForward_FullMethodName); err != nil {
		return err
	}
	ctx, cancel := s.untilClosed(stream.Context())
	defer cancel()
	start, err := startOf(ctx, s, stream, (*podexecv1.PortForwardRequest).GetStart)
	if err != nil {
		return err
	}
	v, err := s.view(ctx, nil)
	if err != nil {
		return err
	}
	pod, err := v.find(s.cfg.Board, start.GetRef())
	if err != nil {
		return err
	}
	port, err := portOf(pod, start)
	if err != nil {
		return err
	}
	wait := start.GetWithoutConnection()
	switch {
	case hasEnded(pod):
		return portError(errPodEnded, port, pod)
	case wait && !isRunning(pod): // As kubectl has it; a port of an init container is reached without waiting.
		return failedPrecondition("unable to forward port %d because pod %s is not running; its phase is %s", port, name(pod), phaseOf(pod))
	}
	// Unlike the streams of a container, connections outlive the pod's containers: its network lasts longer.
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		if podview.AwaitEnd(ctx, s.cfg.Board, pod.UID) {
			fail(errPodEnded)
		}
	}()
	defer func() {
		fail(nil)
		<-watched
	}()
	leave, err := s.slots.connect(ctx, pod, wait)
	if err != nil {
		return err
	}
	defer leave()
	defer s.forwarded(ctx, pod, port)()
	opened := &podexecv1.PortForwardOpened{Port: port}
	if err := stream.Send(&podexecv1.PortForwardResponse{Message: &podexecv1.PortForwardResponse_Opened{Opened: opened}}); err != nil {
		return err
	}
	if wait {
		<-ctx.Done()
	} else {
		err = s.forward(ctx, fail, stream, runtime.PortInput{UID: pod.UID, Port: port})
	}
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, errPodEnded):
		return portError(errPodEnded, port, pod)
	case ctx.Err() == nil && err == nil:
		return nil
	case ctx.Err() == nil:
		return portError(err, port, pod)
	case errors.Is(cause, context.Canceled), errors.Is(cause, context.DeadlineExceeded):
		return s.ended(ctx)
	default:
		return cause
	}
}

// forward carries the connection until both directions have ended. A mistake of the caller ends it by fail.
func (s *Server) forward(ctx context.Context, fail context.CancelCauseFunc, stream forwardStream, in runtime.PortInput) error {
	reader, writer := io.Pipe()
	defer func() { _ = reader.Close() }()
	end := &lingering{writer: writer, time: s.linger}
	defer end.stop()
	out := &sender[podexecv1.PortForwardResponse]{stream: stream}
	defer out.close()
	send := out.writer(func(p []byte) *podexecv1.PortForwardResponse {
		return &podexecv1.PortForwardResponse{Message: &podexecv1.PortForwardResponse_Data{Data: p}}
	})
	in.In = reader
	in.Out = writerFunc(func(p []byte) error {
		end.progress()
		return send(p)
	})
	in.OutEnded = func() error {
		end.now()
		return out.send(&podexecv1.PortForwardResponse{Message: &podexecv1.PortForwardResponse_DataClosed{DataClosed: true}})
	}
	// It blocks in Recv, so it ends when the call does.
	go func() {
		for {
			m, err := stream.Recv()
			switch {
			case errors.Is(err, io.EOF):
				end.start()
				return
			case err != nil:
				return // The call ends by itself.
			case m.GetStart() != nil:
				fail(errStartedBefore)
				return
			case len(m.GetData()) > maxPiece:
				fail(errLongPiece)
				return
			case m.GetDataClosed():
				end.start()
			case len(m.GetData()) > 0:
				// That the pod doesn't read any more isn't the caller's error.
				_, _ = writer.Write(m.GetData())
			}
		}
	}()
	return s.cfg.Ports.ForwardPort(ctx, in)
}

// forwarding is what a caller forwards.
type forwarding struct {
	caller string
	uid    types.UID
	port   int32
}

// forwarded counts a call until end is called. It logs the first call of a caller to a port: a browser makes many
// connections.
func (s *Server) forwarded(ctx context.Context, pod podview.Pod, port int32) (end func()) {
	caller, _ := access.FromContext(ctx)
	key := forwarding{caller.Identity, pod.UID, port}
	s.forwardsMu.Lock()
	defer s.forwardsMu.Unlock()
	if s.forwards[key]++; s.forwards[key] == 1 {
		s.log.InfoContext(ctx, "a caller forwards a port of a pod", "caller", caller.Identity, "pod", name(pod), "uid", pod.UID, "port", port)
	}
	return func() {
		s.forwardsMu.Lock()
		defer s.forwardsMu.Unlock()
		if s.forwards[key]--; s.forwards[key] == 0 {
			delete(s.forwards, key)
		}
	}
}
