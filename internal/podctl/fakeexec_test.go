package podctl

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/podctl/podctltest"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// busyPodexecd is a podexecd with more than lists. It applies filters.
type busyPodexecd struct {
	podexecv1.UnimplementedPodExecServiceServer
	pods   []*podexecv1.ObservedPod
	events []*podexecv1.PodEvent
	// version answers GetVersion. Nil: UNIMPLEMENTED.
	version *podexecv1.GetVersionResponse
	// more are the events after those that are known, for who follows.
	more chan *podexecv1.PodEvent
	// logs, restart, exec, attach, forward and copy answer. Nil: UNIMPLEMENTED.
	logs    func(*podexecv1.ReadLogsRequest, grpc.ServerStreamingServer[podexecv1.ReadLogsResponse]) error
	restart func(*podexecv1.RestartPodRequest) (*podexecv1.RestartPodResponse, error)
	exec    func(*podexecv1.ExecStart, grpc.BidiStreamingServer[podexecv1.ExecRequest, podexecv1.ExecResponse]) error
	attach  func(*podexecv1.AttachStart, grpc.BidiStreamingServer[podexecv1.AttachRequest, podexecv1.AttachResponse]) error
	forward func(*podexecv1.PortForwardStart, grpc.BidiStreamingServer[podexecv1.PortForwardRequest, podexecv1.PortForwardResponse]) error
	copy    func(*podexecv1.CopyStart, grpc.BidiStreamingServer[podexecv1.CopyRequest, podexecv1.CopyResponse]) error

	mu sync.Mutex
	// scripts are sent one to a watcher of statuses; each but the last then ends.
	scripts [][]*podexecv1.WatchPodStatusResponse
	// tokens are those with which the watchers came.
	tokens []string
}

func (n *node) busy(f *busyPodexecd) {
	n.t.Helper()
	n.serve("podexecd", func(s *grpc.Server) { podexecv1.RegisterPodExecServiceServer(s, f) })
}

func inFilter(f *podconfigv1.PodFilter, ref *podconfigv1.PodRef) bool {
	return (len(f.GetNames()) == 0 || slices.Contains(f.GetNames(), ref.GetName())) &&
		(len(f.GetNamespaces()) == 0 || slices.Contains(f.GetNamespaces(), ref.GetNamespace()))
}

func (f *busyPodexecd) GetVersion(ctx context.Context, req *podexecv1.GetVersionRequest) (*podexecv1.GetVersionResponse, error) {
	if f.version == nil {
		return f.UnimplementedPodExecServiceServer.GetVersion(ctx, req)
	}
	return f.version, nil
}

func (f *busyPodexecd) ListPods(_ context.Context, req *podexecv1.ListPodsRequest) (*podexecv1.ListPodsResponse, error) {
	resp := &podexecv1.ListPodsResponse{}
	for _, p := range f.pods {
		if inFilter(req.GetFilter(), p.GetRef()) {
			resp.Pods = append(resp.Pods, p)
		}
	}
	return resp, nil
}

func (f *busyPodexecd) RestartPod(_ context.Context, req *podexecv1.RestartPodRequest) (*podexecv1.RestartPodResponse, error) {
	if f.restart == nil {
		return nil, status.Error(codes.Unimplemented, "no restarts")
	}
	return f.restart(req)
}

func (f *busyPodexecd) WatchPodStatus(
	req *podexecv1.WatchPodStatusRequest, stream grpc.ServerStreamingServer[podexecv1.WatchPodStatusResponse],
) error {
	f.mu.Lock()
	f.tokens = append(f.tokens, req.GetResumeToken())
	if len(f.scripts) == 0 {
		f.mu.Unlock()
		return status.Error(codes.Unavailable, "no more scripts")
	}
	script, last := f.scripts[0], len(f.scripts) == 1
	f.scripts = f.scripts[1:]
	f.mu.Unlock()
	for _, m := range script {
		if err := stream.Send(m); err != nil {
			return err
		}
	}
	if last {
		<-stream.Context().Done()
	}
	return nil
}

func (f *busyPodexecd) WatchEvents(req *podexecv1.WatchEventsRequest, stream grpc.ServerStreamingServer[podexecv1.WatchEventsResponse]) error {
	for _, e := range f.events {
		if !inFilter(req.GetFilter(), e.GetRef()) {
			continue
		}
		if err := stream.Send(&podexecv1.WatchEventsResponse{Event: e}); err != nil {
			return err
		}
	}
	for req.GetFollow() {
		select {
		case e, ok := <-f.more:
			if !ok {
				return nil
			}
			if err := stream.Send(&podexecv1.WatchEventsResponse{Event: e}); err != nil {
				return err
			}
		case <-stream.Context().Done():
			return nil
		}
	}
	return nil
}

func (f *busyPodexecd) ReadLogs(req *podexecv1.ReadLogsRequest, stream grpc.ServerStreamingServer[podexecv1.ReadLogsResponse]) error {
	if f.logs == nil {
		return status.Error(codes.Unimplemented, "no logs")
	}
	return f.logs(req, stream)
}

func (f *busyPodexecd) Exec(stream grpc.BidiStreamingServer[podexecv1.ExecRequest, podexecv1.ExecResponse]) error {
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	if f.exec == nil {
		return status.Error(codes.Unimplemented, "no commands")
	}
	return f.exec(first.GetStart(), stream)
}

func (f *busyPodexecd) Attach(stream grpc.BidiStreamingServer[podexecv1.AttachRequest, podexecv1.AttachResponse]) error {
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	if f.attach == nil {
		return status.Error(codes.Unimplemented, "no attaching")
	}
	return f.attach(first.GetStart(), stream)
}

func (f *busyPodexecd) PortForward(stream grpc.BidiStreamingServer[podexecv1.PortForwardRequest, podexecv1.PortForwardResponse]) error {
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	if f.forward == nil {
		return status.Error(codes.Unimplemented, "no ports")
	}
	return f.forward(first.GetStart(), stream)
}

func (f *busyPodexecd) Copy(stream grpc.BidiStreamingServer[podexecv1.CopyRequest, podexecv1.CopyResponse]) error {
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	if f.copy == nil {
		return status.Error(codes.Unimplemented, "no copies")
	}
	return f.copy(first.GetStart(), stream)
}

// received reads what an Exec is sent until its standard input ends.
func received(stream grpc.BidiStreamingServer[podexecv1.ExecRequest, podexecv1.ExecResponse]) (string, error) {
	text := ""
	for {
		m, err := stream.Recv()
		switch {
		case errors.Is(err, io.EOF) || m.GetStdinClosed():
			return text, nil
		case err != nil:
			return text, err
		}
		text += string(m.GetStdin())
	}
}

func exitWith(code int32) *podexecv1.ExecResponse {
	return &podexecv1.ExecResponse{Message: &podexecv1.ExecResponse_ExitCode{ExitCode: code}}
}

func stdoutOf(text string) *podexecv1.ExecResponse {
	return &podexecv1.ExecResponse{Message: &podexecv1.ExecResponse_Stdout{Stdout: []byte(text)}}
}

// podEvent happened a minute ago for the last of count times.
func podEvent(namespace, name, container, kind, reason, message string, count int32) *podexecv1.PodEvent {
	return &podexecv1.PodEvent{
		Ref:       &podconfigv1.PodRef{Namespace: namespace, Name: name, Uid: podctltest.UID(name)},
		Container: container, Type: kind, Reason: reason, Message: message, Count: count,
		FirstTime: podctltest.Before(time.Hour), LastTime: podctltest.Before(time.Minute),
	}
}

// runningPod is one that runs, as podexecd has it.
func runningPod(t *testing.T, namespace, name string) *podexecv1.ObservedPod {
	t.Helper()
	return podctltest.Observed(t, namespace, name, &corev1.PodStatus{
		Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{podctltest.Running("web")},
	})
}
