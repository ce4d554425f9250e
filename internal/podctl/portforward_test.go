package podctl

import (
	"context"
	"io"
	"net"
	"regexp"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/podstream/podstream/internal/podctl/podctltest"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

type forwardStream = grpc.BidiStreamingServer[podexecv1.PortForwardRequest, podexecv1.PortForwardResponse]

func forwardOpened(port int32) *podexecv1.PortForwardResponse {
	return &podexecv1.PortForwardResponse{Message: &podexecv1.PortForwardResponse_Opened{Opened: &podexecv1.PortForwardOpened{Port: port}}}
}

// Connections to the printed addresses reach the pod; their errors are printed, and Ctrl-C is no failure.
func TestPortForward(t *testing.T) {
	n := newNode(t)
	n.busy(&busyPodexecd{
		pods: []*podexecv1.ObservedPod{runningPod(t, "default", "web-node1")},
		forward: func(start *podexecv1.PortForwardStart, stream forwardStream) error {
			port := max(start.GetNumber(), 80)
			if start.GetRef().GetUid() == "" || start.GetName() != "" && start.GetName() != "http" {
				t.Errorf("asked for %v", start)
			}
			if err := stream.Send(forwardOpened(port)); err != nil {
				return err
			}
			switch {
			case start.GetWithoutConnection():
				<-stream.Context().Done()
				return nil
			case port == 81:
				if _, err := stream.Recv(); err != nil {
					return err
				}
				return status.Error(codes.FailedPrecondition, "port 81 of pod default/web: refused "+podctltest.Hostile)
			}
			return stream.Send(&podexecv1.PortForwardResponse{Message: &podexecv1.PortForwardResponse_Data{Data: []byte("hello")}})
		},
	})
	ctx, interrupt := context.WithCancel(t.Context())
	code := make(chan int, 1)
	go func() { code <- n.run(ctx, "port-forward", "--address=127.0.0.1", "web-node1", ":http", ":81") }()
	n.stdout.await(t, "-> 81\n")
	for _, want := range []string{"hello", ""} {
		printed := regexp.MustCompile(`(?m)^Forwarding from (127\.0\.0\.1:\d+) -> (80|81)$`).FindAllStringSubmatch(n.stdout.String(), -1)
		if len(printed) != 2 {
			t.Fatalf("stdout %q", n.stdout)
		}
		address := printed[0][1]
		if want == "" {
			address = printed[1][1]
		}
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(conn, "x"); err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(conn)
		if string(text) != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q, %v", address, text, err)
		}
		_ = conn.Close()
		_, port, _ := net.SplitHostPort(address)
		n.stdout.await(t, "Handling connection for "+port+"\n")
	}
	n.stderr.await(t, "refused")
	interrupt()
	if got := <-code; got != exitOK || !strings.Contains(n.stderr.String(), "podctl: an error occurred forwarding ") {
		t.Errorf("exit code %d, stderr %q", got, n.stderr)
	}
	podctltest.CheckHarmless(t, "port-forward", n.stderr.String())
}

// The end of the pod, and of podexecd, end it with their reasons.
func TestPortForwardEnds(t *testing.T) {
	for want, err := range map[string]error{
		"the pod has ended":              status.Error(codes.FailedPrecondition, "port 80 of pod default/web: the pod has ended"),
		"lost connection to pod default": nil,
		"lost podexecd":                  status.Error(codes.Unavailable, "podexecd is going down"),
	} {
		n := newNode(t)
		n.busy(&busyPodexecd{
			pods: []*podexecv1.ObservedPod{runningPod(t, "default", "web-node1")},
			forward: func(_ *podexecv1.PortForwardStart, stream forwardStream) error {
				if err := stream.Send(forwardOpened(80)); err != nil {
					return err
				}
				n.stdout.await(t, "Forwarding from")
				return err
			},
		})
		if code := n.run(t.Context(), "port-forward", "--address=127.0.0.1", "web-node1", ":80"); code != exitFailed || !strings.Contains(n.stderr.String(), want) {
			t.Errorf("exit code %d, stderr %q; want %q", code, n.stderr, want)
		}
	}
}
