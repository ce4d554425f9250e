package podexecapi

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/execsvc/cri/runtime"
	"github.com/podstream/podstream/internal/execsvc/pod/podview"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// forwarder is what is connected to instead of a port.
type forwarder func(ctx context.Context, in runtime.PortInput) error

func (f forwarder) ForwardPort(ctx context.Context, in runtime.PortInput) error { return f(ctx, in) }

type forwardClient = grpc.BidiStreamingClient[podexecv1.PortForwardRequest, podexecv1.PortForwardResponse]

func forwardMessage(start *podexecv1.PortForwardStart) *podexecv1.PortForwardRequest {
	return &podexecv1.PortForwardRequest{Message: &podexecv1.PortForwardRequest_Start{Start: start}}
}

func startForward(port int32) *podexecv1.PortForwardRequest {
	return forwardMessage(&podexecv1.PortForwardStart{
		Ref: &podconfigv1.PodRef{Name: "two"}, Port: &podexecv1.PortForwardStart_Number{Number: port},
	})
}

func forwardData(text string) *podexecv1.PortForwardRequest {
	return &podexecv1.PortForwardRequest{Message: &podexecv1.PortForwardRequest_Data{Data: []byte(text)}}
}

var forwardClosed = &podexecv1.PortForwardRequest{Message: &podexecv1.PortForwardRequest_DataClosed{DataClosed: true}}

// forward begins a call, and sends these messages.
func forward(t *testing.T, s *Server, messages ...*podexecv1.PortForwardRequest) forwardClient {
	t.Helper()
	stream, err := remote(t, s, operator).PortForward(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range messages {
		if err := stream.Send(m); err != nil && !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
	}
	return stream
}

// carried reads a call to its end: the port, the data, and whether their end came.
func carried(stream forwardClient) (port int32, data string, closed bool, err error) {
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return port, data, closed, nil
		}
		if err != nil {
			return port, data, closed, err
		}
		port = max(port, m.GetOpened().GetPort())
		data += string(m.GetData())
		closed = closed || m.GetDataClosed()
	}
}

// The data of both directions passes, in pieces, and each end by itself.
func TestPortForward(t *testing.T) {
	long := strings.Repeat("x", 3*maxPiece/2)
	s := New(Config{Board: boardOf(twoContainers()), Ports: forwarder(func(_ context.Context, in runtime.PortInput) error {
		if in.UID != "uid-two" || in.Port != 80 {
			t.Errorf("connects to port %d of %s", in.Port, in.UID)
		}
		_, _ = io.WriteString(in.Out, long)
		if err := in.OutEnded(); err != nil {
			return err
		}
		// After the end of its own data, the pod still reads.
		if text, err := io.ReadAll(in.In); string(text) != "one two" || err != nil {
			t.Errorf("the pod reads %q, %v", text, err)
		}
		return nil
	})})
	stream := forward(t, s, startForward(80), forwardData("one "), forwardData("two"), forwardClosed)
	if port, data, closed, err := carried(stream); port != 80 || data != long || !closed || err != nil {
		t.Errorf("port %d, %d bytes, closed %v, %v", port, len(data), closed, err)
	}
}

// The end of the caller's data doesn't reach the runtime while the pod may answer: containerd ends both directions soon
// after it.
func TestPortForwardLingers(t *testing.T) {
	s := New(Config{Board: boardOf(twoContainers()), Ports: forwarder(func(_ context.Context, in runtime.PortInput) error {
		request := make([]byte, len("request"))
		if _, err := io.ReadFull(in.In, request); err != nil {
			return err
		}
		_, _ = io.WriteString(in.Out, "answer")
		if err := in.OutEnded(); err != nil {
			return err
		}
		if _, err := in.In.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("after the pod's end it reads %v; want the end of the caller's data", err)
		}
		return nil
	})})
	s.linger = time.Hour
	stream := forward(t, s, startForward(80), forwardData("request"), forwardClosed)
	if _, data, _, err := carried(stream); data != "answer" || err != nil {
		t.Errorf("data %q, %v", data, err)
	}
	// If the pod stays silent, its end comes too.
	s = New(Config{Board: boardOf(twoContainers()), Ports: forwarder(func(_ context.Context, in runtime.PortInput) error {
		_, err := io.Copy(io.Discard, in.In)
		return err
	})})
	s.linger = time.Millisecond
	if _, _, _, err := carried(forward(t, s, startForward(80), forwardClosed)); err != nil {
		t.Error(err)
	}
}

// The end of the caller's messages is that of its data.
func TestPortForwardEndsWithTheMessages(t *testing.T) {
	s := New(Config{Board: boardOf(twoContainers()), Ports: forwarder(func(_ context.Context, in runtime.PortInput) error {
		_ = in.OutEnded()
		_, err := io.Copy(io.Discard, in.In)
		return err
	})})
	stream := forward(t, s, startForward(80), forwardData("x"))
	if err := stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if _, _, _, err := carried(stream); err != nil {
		t.Error(err)
	}
}

// named is twoContainers with ports that have names.
func named() podview.Pod {
	p := twoContainers()
	p.Object.Spec.Containers[1].Ports = []v1.ContainerPort{
		{Name: "dns", ContainerPort: 53, Protocol: v1.ProtocolUDP}, {Name: "web", ContainerPort: 8080}, {Name: "admin", ContainerPort: 9090, Protocol: v1.ProtocolTCP},
	}
	return p
}

// Ports have numbers, or names of the pod's spec. A stream without a connection connects to nothing, and ends with the
// pod.
func TestPortForwardWithoutConnection(t *testing.T) {
	board := boardOf(named())
	s := New(Config{Board: board, Ports: forwarder(func(context.Context, runtime.PortInput) error {
		t.Error("a connection is made")
		return nil
	})})
	for name, want := range map[string]int32{"web": 8080, "admin": 9090} {
		stream := forward(t, s, forwardMessage(&podexecv1.PortForwardStart{
			Ref: &podconfigv1.PodRef{Uid: "uid-two"}, Port: &podexecv1.PortForwardStart_Name{Name: name}, WithoutConnection: true,
		}))
		if m, err := stream.Recv(); err != nil || m.GetOpened().GetPort() != want {
			t.Errorf("%s: %v, %v; want port %d", name, m, err, want)
		}
		p := named()
		p.Status = p.Status.DeepCopy()
		p.Status.Phase = v1.PodFailed
		board.Set(p)
		if _, err := stream.Recv(); status.Code(err) != codes.FailedPrecondition || !strings.Contains(err.Error(), "pod default/two: the pod has ended") {
			t.Errorf("after the pod's end: %v", err)
		}
		board.Set(named())
	}
}

func TestPortForwardRefuses(t *testing.T) {
	s := New(Config{Board: boardOf(named()), Ports: forwarder(func(ctx context.Context, in runtime.PortInput) error {
		if in.Port == 81 {
			return errors.New("connection refused")
		}
		<-ctx.Done()
		return ctx.Err()
	})})
	byName := func(name string) *podexecv1.PortForwardRequest {
		return forwardMessage(&podexecv1.PortForwardStart{Ref: &podconfigv1.PodRef{Name: "two"}, Port: &podexecv1.PortForwardStart_Name{Name: name}})
	}
	for name, tc := range map[string]struct {
		messages []*podexecv1.PortForwardRequest
		want     codes.Code
		text     string
	}{
		"a closed port":    {[]*podexecv1.PortForwardRequest{startForward(81)}, codes.FailedPrecondition, "port 81 of pod default/two: connection refused"},
		"no start":         {[]*podexecv1.PortForwardRequest{forwardData("x")}, codes.InvalidArgument, "start"},
		"started twice":    {[]*podexecv1.PortForwardRequest{startForward(80), startForward(80)}, codes.InvalidArgument, "start"},
		"a long piece":     {[]*podexecv1.PortForwardRequest{startForward(80), forwardData(strings.Repeat("x", maxPiece+1))}, codes.InvalidArgument, "65536"},
		"no port":          {[]*podexecv1.PortForwardRequest{forwardMessage(&podexecv1.PortForwardStart{Ref: &podconfigv1.PodRef{Name: "two"}})}, codes.InvalidArgument, "start.port"},
		"port 0":           {[]*podexecv1.PortForwardRequest{startForward(0)}, codes.InvalidArgument, "from 1 to 65535"},
		"port 65536":       {[]*podexecv1.PortForwardRequest{startForward(65536)}, codes.InvalidArgument, "from 1 to 65535"},
		"an unknown name":  {[]*podexecv1.PortForwardRequest{byName("http")}, codes.NotFound, `no port http for TCP; it has ["web (8080)" "admin (9090)"]`},
		"a port for UDP":   {[]*podexecv1.PortForwardRequest{byName("dns")}, codes.NotFound, "no port dns for TCP"},
		"an unnamed port":  {[]*podexecv1.PortForwardRequest{byName("")}, codes.NotFound, "no port"},
		"an unknown pod":   {[]*podexecv1.PortForwardRequest{forwardMessage(&podexecv1.PortForwardStart{Ref: &podconfigv1.PodRef{Name: "x"}})}, codes.NotFound, "no pod"},
		"nothing but data": {nil, codes.InvalidArgument, "start"},
	} {
		t.Run(name, func(t *testing.T) {
			stream := forward(t, s, tc.messages...)
			if tc.messages == nil {
				_ = stream.CloseSend()
			}
			if _, _, _, err := carried(stream); status.Code(err) != tc.want || !strings.Contains(status.Convert(err).Message(), tc.text) {
				t.Errorf("%v; want %s with %q", err, tc.want, tc.text)
			}
		})
	}
}

// A caller that sends to a pod that doesn't read fills bounded buffers.
func TestPortForwardBoundsBytes(t *testing.T) {
	began := make(chan struct{})
	s := New(Config{Board: boardOf(twoContainers()), Ports: forwarder(func(ctx context.Context, _ runtime.PortInput) error {
		close(began)
		<-ctx.Done()
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
	stuck := time.AfterFunc(500*time.Millisecond, cancel) // A blocked Send ends with the call.
	defer stuck.Stop()
	sent := 0
	for piece := bytes.Repeat([]byte("x"), maxPiece); stream.Send(forwardData(string(piece))) == nil; {
		if sent += len(piece); sent > 64<<20 {
			t.Fatalf("%d bytes were sent to a pod that doesn't read", sent)
		}
	}
}
