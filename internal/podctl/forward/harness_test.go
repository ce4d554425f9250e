package forward

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"regexp"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

type stream = grpc.BidiStreamingServer[podexecv1.PortForwardRequest, podexecv1.PortForwardResponse]

// pod is a podexecd with one pod, uid-1, whose connections serve handles.
type pod struct {
	podexecv1.UnimplementedPodExecServiceServer
	serve func(port int32, s stream) error
	// end ends the calls without a connection.
	end chan error
}

func (p *pod) PortForward(s stream) error {
	first, err := s.Recv()
	if err != nil {
		return err
	}
	start := first.GetStart()
	number := start.GetNumber()
	switch {
	case start.GetRef().GetUid() != "uid-1":
		return status.Error(codes.NotFound, "there is no such pod")
	case start.GetName() == "http":
		number = 80
	case start.GetName() != "":
		return status.Error(codes.NotFound, "there is no such port")
	}
	opened := &podexecv1.PortForwardResponse{Message: &podexecv1.PortForwardResponse_Opened{Opened: &podexecv1.PortForwardOpened{Port: number}}}
	if err := s.Send(opened); err != nil {
		return err
	}
	if start.GetWithoutConnection() {
		select {
		case err := <-p.end:
			return err
		case <-s.Context().Done():
			return s.Context().Err()
		}
	}
	return p.serve(number, s)
}

func data(text string) *podexecv1.PortForwardResponse {
	return &podexecv1.PortForwardResponse{Message: &podexecv1.PortForwardResponse_Data{Data: []byte(text)}}
}

var closed = &podexecv1.PortForwardResponse{Message: &podexecv1.PortForwardResponse_DataClosed{DataClosed: true}}

// all reads what a connection sends to its end.
func all(s stream) (string, error) {
	var text bytes.Buffer
	for {
		m, err := s.Recv()
		if err != nil {
			return text.String(), err
		}
		if m.GetDataClosed() {
			return text.String(), nil
		}
		text.Write(m.GetData())
	}
}

// running is a Forwarder that runs.
type running struct {
	t      *testing.T
	out    *lines
	failed chan string
	stop   context.CancelFunc
	result chan error
}

// lines is an output that can be waited for.
type lines struct {
	mu   sync.Mutex
	text string
	more chan struct{}
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text += string(p)
	close(l.more)
	l.more = make(chan struct{})
	return len(p), nil
}

// await waits for a match of the pattern, and returns its groups.
func (l *lines) await(pattern string) []string {
	for {
		l.mu.Lock()
		found, more := regexp.MustCompile(pattern).FindStringSubmatch(l.text), l.more
		l.mu.Unlock()
		if found != nil {
			return found
		}
		<-more
	}
}

// run runs a Forwarder to the pod. Its ports are for 127.0.0.1.
func run(t *testing.T, p *pod, ports ...string) *running {
	t.Helper()
	if p.end == nil {
		p.end = make(chan error)
	}
	listener := bufconn.Listen(1 << 20)
	server := grpc.NewServer()
	podexecv1.RegisterPodExecServiceServer(server, p)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	conn, err := grpc.NewClient("passthrough:///podexecd", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	r := &running{t: t, out: &lines{more: make(chan struct{})}, failed: make(chan string, 2*maxConnections), stop: cancel, result: make(chan error, 1)}
	cfg := Config{
		Client: podexecv1.NewPodExecServiceClient(conn), Pod: &podconfigv1.PodRef{Uid: "uid-1"}, Addresses: []string{"127.0.0.1"}, Out: r.out,
		Failed: func(local int, remote int32, err error) { r.failed <- fmt.Sprint(remote, " ", err) },
	}
	for _, text := range ports {
		port, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		cfg.Ports = append(cfg.Ports, port)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.result <- New(cfg).Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
		_ = conn.Close()
		server.Stop()
		<-served
	})
	return r
}

// dial connects to the local port of a pod's port.
func (r *running) dial(remote int) *net.TCPConn {
	r.t.Helper()
	local := r.out.await(fmt.Sprintf(`Forwarding from (127\.0\.0\.1:\d+) -> %d\n`, remote))[1]
	conn, err := (&net.Dialer{}).DialContext(r.t.Context(), "tcp4", local)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = conn.Close() })
	return conn.(*net.TCPConn)
}
