package web

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstream/podstream/internal/hostiletext"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
	"github.com/podstream/podstream/test/rig"
)

// hostileTexts are what the daemons below send: the corpus of package hostiletext, and what a browser may act on.
var hostileTexts = append(hostiletext.Strings(), scripts...)

// utf8Text returns the text as a string of a message: those are UTF-8.
func utf8Text(text string) string { return strings.ToValidUTF8(text, "\ufffd") }

// hostileRef returns the reference of the pod with a text. Only its UID is harmless.
func hostileRef(i int) *podconfigv1.PodRef {
	text := utf8Text(hostileTexts[i])
	return &podconfigv1.PodRef{Namespace: text, Name: text, Uid: fmt.Sprintf("uid-%03d", i)}
}

// hostilePod is a desired pod of a node, with a text wherever it has one.
func hostilePod(i int, node string) *podconfigv1.Pod {
	text := hostileTexts[i]
	content, err := (&v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: text, Name: text, Labels: map[string]string{text: text}, Annotations: map[string]string{text: text}},
		Spec:       v1.PodSpec{NodeName: node, Containers: []v1.Container{{Name: text, Image: text, Command: []string{text}}}},
	}).Marshal()
	if err != nil {
		panic(err)
	}
	return &podconfigv1.Pod{
		Ref: hostileRef(i), Source: utf8Text(text), SpecDigest: utf8Text(text), StatusDigest: utf8Text(text),
		Content: &podconfigv1.Pod_Protobuf{Protobuf: content},
	}
}

// hostileConfig is a podconfigd that sends hostile texts. A gateway's pods have nodes with hostile names.
type hostileConfig struct {
	podconfigv1.UnimplementedPodConfigServiceServer
	gateway bool
}

// pod returns a desired pod.
func (c hostileConfig) pod(i int) *podconfigv1.Pod {
	if c.gateway {
		return hostilePod(i, hostileTexts[i])
	}
	return hostilePod(i, "node")
}

// WatchPodUpdates implements podconfigv1.PodConfigServiceServer. Each pod is added after the initial state, so that it has a
// revision in the timeline.
func (c hostileConfig) WatchPodUpdates(_ *podconfigv1.WatchPodUpdatesRequest, s grpc.ServerStreamingServer[podconfigv1.WatchPodUpdatesResponse]) error {
	cursor := func(revision uint64) *podconfigv1.Cursor {
		return &podconfigv1.Cursor{InstanceId: "instance", Revision: revision, View: "view"}
	}
	err := s.Send(&podconfigv1.WatchPodUpdatesResponse{
		Event: &podconfigv1.WatchPodUpdatesResponse_Synced{Synced: &podconfigv1.Synced{}}, Cursor: cursor(1),
	})
	for i := range hostileTexts {
		if err != nil {
			return err
		}
		pod := c.pod(i)
		err = s.Send(&podconfigv1.WatchPodUpdatesResponse{
			Event: &podconfigv1.WatchPodUpdatesResponse_Update{Update: &podconfigv1.PodUpdate{
				Op: podconfigv1.PodOperation_POD_OPERATION_ADD, Source: pod.GetSource(), Pods: []*podconfigv1.Pod{pod}, SourceReady: true,
			}},
			Cursor: cursor(uint64(i) + 2),
		})
	}
	if err != nil {
		return err
	}
	<-s.Context().Done()
	return nil
}

// ListSources implements podconfigv1.PodConfigServiceServer.
func (hostileConfig) ListSources(context.Context, *podconfigv1.ListSourcesRequest) (*podconfigv1.ListSourcesResponse, error) {
	out := &podconfigv1.ListSourcesResponse{}
	for i, text := range hostileTexts {
		text = utf8Text(text)
		out.Sources = append(out.Sources, &podconfigv1.Source{Name: text, Location: text, LastError: text, Findings: []*podconfigv1.Finding{
			{Severity: podconfigv1.FindingSeverity_FINDING_SEVERITY_ERROR, Origin: text, Field: text, Message: text, KeptPods: []*podconfigv1.PodRef{hostileRef(i)}},
		}})
	}
	return out, nil
}

// ListConsumers implements podconfigv1.PodConfigServiceServer.
func (hostileConfig) ListConsumers(context.Context, *podconfigv1.ListConsumersRequest) (*podconfigv1.ListConsumersResponse, error) {
	out := &podconfigv1.ListConsumersResponse{}
	for i, text := range hostileTexts {
		text = utf8Text(text)
		out.Consumers = append(out.Consumers, &podconfigv1.Consumer{
			Name: text, Peer: text, Identity: text, State: podconfigv1.ConsumerState_CONSUMER_STATE_LIVE,
			HeldSources: []*podconfigv1.HeldSource{{Name: text, Reason: text}},
			LastReport:  &podconfigv1.ReportAppliedRequest{Consumer: text, Errors: []*podconfigv1.PodError{{Ref: hostileRef(i), Reason: text, Message: text}}},
		})
	}
	return out, nil
}

// DiffManifests implements podconfigv1.PodConfigServiceServer. The manifest names the number of the text: even ones are refused.
func (c hostileConfig) DiffManifests(_ context.Context, req *podconfigv1.DiffManifestsRequest) (*podconfigv1.DiffManifestsResponse, error) {
	var i int
	if _, err := fmt.Sscanf(string(req.GetManifests()[0].GetContent()), "# %d", &i); err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	text := utf8Text(hostileTexts[i])
	if i%2 == 0 {
		return nil, status.Error(codes.InvalidArgument, text)
	}
	return &podconfigv1.DiffManifestsResponse{Revision: 9, Findings: []*podconfigv1.Finding{
		{Severity: podconfigv1.FindingSeverity_FINDING_SEVERITY_WARNING, Origin: text, Field: text, Message: text},
	}, Updates: []*podconfigv1.PodUpdate{
		{Op: podconfigv1.PodOperation_POD_OPERATION_ADD, Source: text, Pods: []*podconfigv1.Pod{c.pod(i)}},
	}}, nil
}

// hostileExec is a podexecd that sends hostile texts.
type hostileExec struct {
	podexecv1.UnimplementedPodExecServiceServer
}

func hostileObserved(i int) *podexecv1.ObservedPod {
	text := hostileTexts[i]
	content, err := (&v1.PodStatus{
		Phase: v1.PodPhase(text), Message: text, Reason: text, PodIP: text,
		ContainerStatuses: []v1.ContainerStatus{
			{Name: text, Image: text, State: v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: text, Message: text}}},
			{Name: "last", LastTerminationState: v1.ContainerState{Terminated: &v1.ContainerStateTerminated{Reason: text, Message: text}}},
		},
	}).Marshal()
	if err != nil {
		panic(err)
	}
	text = utf8Text(text)
	return &podexecv1.ObservedPod{
		Ref: hostileRef(i), Source: text, Desired: true, WorkerState: podexecv1.WorkerState_WORKER_STATE_SYNCING, Phase: text,
		LastError: text, WaitsFor: text, Pulls: []*podexecv1.ImagePull{{Image: text}}, Status: &podexecv1.ObservedPod_Protobuf{Protobuf: content},
	}
}

// GetPod implements podexecv1.PodExecServiceServer.
func (hostileExec) GetPod(_ context.Context, req *podexecv1.GetPodRequest) (*podexecv1.GetPodResponse, error) {
	var i int
	if _, err := fmt.Sscanf(req.GetRef().GetUid(), "uid-%d", &i); err != nil || i < 0 || i >= len(hostileTexts) {
		return nil, status.Error(codes.NotFound, "there is no such pod")
	}
	return &podexecv1.GetPodResponse{Pod: hostileObserved(i)}, nil
}

// WatchPodStatus implements podexecv1.PodExecServiceServer.
func (hostileExec) WatchPodStatus(_ *podexecv1.WatchPodStatusRequest, s grpc.ServerStreamingServer[podexecv1.WatchPodStatusResponse]) error {
	for i := range hostileTexts {
		if err := s.Send(&podexecv1.WatchPodStatusResponse{Event: &podexecv1.WatchPodStatusResponse_Pod{Pod: hostileObserved(i)}}); err != nil {
			return err
		}
	}
	err := s.Send(&podexecv1.WatchPodStatusResponse{
		Event: &podexecv1.WatchPodStatusResponse_Synced{Synced: &podexecv1.StatusSynced{}}, ResumeToken: "1",
	})
	if err != nil {
		return err
	}
	<-s.Context().Done()
	return nil
}

// WatchEvents implements podexecv1.PodExecServiceServer.
func (hostileExec) WatchEvents(_ *podexecv1.WatchEventsRequest, s grpc.ServerStreamingServer[podexecv1.WatchEventsResponse]) error {
	if err := s.SendHeader(nil); err != nil {
		return err
	}
	for i, text := range hostileTexts {
		text = utf8Text(text)
		if err := s.Send(&podexecv1.WatchEventsResponse{Event: &podexecv1.PodEvent{
			Ref: hostileRef(i), Container: text, Type: "Warning", Reason: text, Message: text, Count: 1,
		}}); err != nil {
			return err
		}
	}
	<-s.Context().Done()
	return nil
}

// ReadLogs implements podexecv1.PodExecServiceServer: every container has printed all texts.
func (hostileExec) ReadLogs(_ *podexecv1.ReadLogsRequest, s grpc.ServerStreamingServer[podexecv1.ReadLogsResponse]) error {
	for i, text := range hostileTexts {
		line := strings.ReplaceAll(text, "\n", " ")
		data := fmt.Appendf(nil, "2026-03-01T12:00:%02d.%03d000000Z line %d %s\n", i/10%60, i%10, i, line)
		if err := s.Send(&podexecv1.ReadLogsResponse{Data: data, Stderr: i%2 == 1}); err != nil {
			return err
		}
	}
	<-s.Context().Done()
	return nil
}

// serveHostile serves a daemon at a new socket until the test ends.
func serveHostile(t *testing.T, register func(*grpc.Server)) string {
	t.Helper()
	dir, err := nodes.NewDir()
	rig.Must(t, err)
	socket := filepath.Join(dir, "s")
	listener, err := net.Listen("unix", socket)
	rig.Must(t, err)
	server := grpc.NewServer()
	register(server)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		rig.Must(t, <-ended)
	})
	return socket
}
