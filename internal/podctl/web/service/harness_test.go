package service_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"github.com/podstream/podstream/client/stream"
	"github.com/podstream/podstream/internal/podctl/podctltest"
	"github.com/podstream/podstream/internal/podctl/web/board"
	"github.com/podstream/podstream/internal/podctl/web/door"
	podwebv1 "github.com/podstream/podstream/internal/podctl/web/proto/podweb/v1"
	"github.com/podstream/podstream/internal/podctl/web/proto/podweb/v1/podwebv1connect"
	"github.com/podstream/podstream/internal/podctl/web/service"
	"github.com/podstream/podstream/internal/podctl/web/upstream"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fixture is a Service without a door, over a board that the test fills.
type fixture struct {
	t       *testing.T
	board   *board.Board
	service *service.Service
	client  podwebv1connect.WebServiceClient
	url     string
}

// timelineBytes is the bound of the timeline in these tests.
const timelineBytes = 1 << 20

// start serves until the test ends.
func start(t *testing.T, change func(*service.Config, *upstream.Config)) *fixture {
	t.Helper()
	f := &fixture{t: t, board: board.New(board.Config{
		Clock: clock.RealClock{}, Unified: func(_, _ *corev1.Pod, _ int) (string, error) { return "-a\n+b\n", nil },
		TimelineBytes: timelineBytes,
	})}
	up := upstream.Config{Board: f.board, Clock: clock.RealClock{}, FirstPause: 5 * time.Millisecond, Poll: 5 * time.Millisecond}
	cfg := service.Config{
		Board: f.board, Sessions: door.NewSessions(clock.RealClock{}), Confirm: service.NewConfirmations(clock.RealClock{}),
		Idle: service.NewIdle(clock.RealClock{}, 0), Clock: clock.RealClock{}, Version: "v1", CSPReports: new(atomic.Int32),
		Changes: func(context.Context, *podconfigv1.DiffManifestsResponse) ([]*podwebv1.PodDiff, error) {
			return nil, errors.New("not in this test")
		},
	}
	if change != nil {
		change(&cfg, &up)
	}
	up.Podconfigd, up.Podexecd = cfg.Podconfigd, cfg.Podexecd
	cfg.Upstream = upstream.New(up)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		cfg.Upstream.Run(ctx)
	}()
	f.service = service.New(cfg)
	_, handler := podwebv1connect.NewWebServiceHandler(f.service)
	server := httptest.NewUnstartedServer(handler)
	// As podctl web has it: the kernel keeps little of what a tab doesn't read.
	server.Listener = door.NewListener(server.Listener, door.MaxConnections)
	server.Start()
	f.url = server.URL
	transport := &http.Transport{DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		if err == nil {
			err = conn.(*net.TCPConn).SetReadBuffer(64 << 10) //nolint:forcetypeassert // It is one.
		}
		return conn, err
	}}
	f.client = podwebv1connect.NewWebServiceClient(&http.Client{Transport: transport}, server.URL)
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		server.CloseClientConnections()
		server.Close()
		cancel()
		<-ended
	})
	return f
}

// observe adds pods that run.
func (f *fixture) observe(names ...string) {
	f.t.Helper()
	var pods []*podexecv1.ObservedPod
	for _, name := range names {
		pods = append(pods, podctltest.Observed(f.t, "default", name, &corev1.PodStatus{
			Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{podctltest.Running("web")},
		}))
	}
	f.board.ApplyObserved(pods, nil, false)
}

// publish adds a revision with one op.
func (f *fixture) publish(revision uint64, op podconfigv1.PodOperation, pods ...*podconfigv1.Pod) {
	u := &podconfigv1.PodUpdate{Op: op, Source: "file", Pods: pods}
	f.board.ApplyDesired(false, board.Published{
		Revision: &stream.Revision{Updates: []*podconfigv1.PodUpdate{u}}, Ops: []*podconfigv1.PodUpdate{u},
		Cursor: &podconfigv1.Cursor{InstanceId: "i", Revision: revision}, Received: podctltest.Noon,
	})
}

const (
	opAdd    = podconfigv1.PodOperation_POD_OPERATION_ADD
	opRemove = podconfigv1.PodOperation_POD_OPERATION_REMOVE
)

// onNode is a desired pod on a node.
func onNode(t *testing.T, name, node string) *podconfigv1.Pod {
	t.Helper()
	pod := podctltest.Pod("default", name)
	pod.Spec.NodeName = node
	return podctltest.Desired(t, "file", pod)
}

// The topics of the tests.
func podsTopic(nodes ...string) *podwebv1.Topic {
	topic := &podwebv1.PodsTopic{}
	for _, node := range nodes {
		topic.NodeKeys = append(topic.NodeKeys, board.Key("node", node))
	}
	return &podwebv1.Topic{Topic: &podwebv1.Topic_Pods{Pods: topic}}
}

func timelineTopic(last int32) *podwebv1.Topic {
	return &podwebv1.Topic{Topic: &podwebv1.Topic_Timeline{Timeline: &podwebv1.TimelineTopic{Last: last}}}
}

func logsTopic(names ...string) *podwebv1.Topic {
	topic := &podwebv1.LogsTopic{}
	for _, name := range names {
		topic.Containers = append(topic.Containers, &podwebv1.LogContainer{PodKey: board.Key("pod", podctltest.UID(name)), Container: "web"})
	}
	return &podwebv1.Topic{Topic: &podwebv1.Topic_Logs{Logs: topic}}
}

func sub(id string, topic *podwebv1.Topic, cursor string) *podwebv1.Subscription {
	return &podwebv1.Subscription{Id: id, Topic: topic, Cursor: cursor}
}

// rowNames are the names of the rows of a delivery: "reset +a +b -KEY".
func rowNames(d *podwebv1.Delivery) string {
	var out []string
	if d.GetReset_() {
		out = append(out, "reset")
	}
	for _, row := range d.GetPods().GetRows() {
		out = append(out, "+"+row.GetName().GetName())
	}
	for range d.GetRemoved() {
		out = append(out, "-")
	}
	return strings.Join(out, " ")
}

// wantCode fails unless the error has the code.
func wantCode(t *testing.T, what string, err error, want connect.Code) {
	t.Helper()
	if connect.CodeOf(err) != want || err == nil {
		t.Errorf("%s: %v; want %v", what, err, want)
	}
}

func numbered(prefix string, n int) []string {
	var out []string
	for i := range n {
		out = append(out, fmt.Sprintf("%s%d", prefix, i))
	}
	return out
}
