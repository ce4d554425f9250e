package simruntime

import (
	"context"
	"io"
	"net"
	"testing"

	"k8s.io/client-go/tools/remotecommand"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// endless is a client's stream that sends without end, and reads nothing.
type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

func (endless) Write(p []byte) (int, error) { return len(p), nil }

func (endless) Close() error { return nil }

// The connection of a client that sends without end, to a pod that does nothing, ends with the runtime.
func TestPortForwardEndsWithTheRuntime(t *testing.T) {
	here, there := net.Pipe()
	defer there.Close()
	ended, connected := make(chan error, 1), make(chan struct{})
	t.Run("the runtime", func(t *testing.T) {
		h := start(t, Config{Streams: true, Dial: func(context.Context, string, int32) (net.Conn, error) {
			close(connected)
			return here, nil
		}})
		sandbox, _ := h.pod("web")
		// A command's streams show that streams are served.
		resp, err := h.runtime.Exec(t.Context(), &runtimeapi.ExecRequest{ContainerId: h.sample("other", "pause"), Cmd: []string{"/sample", "exit", "0"}, Stdout: true})
		if err != nil {
			t.Fatal(err)
		}
		if err := stream(t, resp.GetUrl(), remotecommand.StreamOptions{Stdout: io.Discard}); err != nil {
			t.Fatal(err)
		}
		go func() { ended <- streamRuntime{h.Server}.PortForward(context.Background(), sandbox, 80, endless{}) }()
		<-connected
	})
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
