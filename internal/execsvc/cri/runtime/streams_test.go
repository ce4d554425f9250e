package runtime

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	internalapi "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
)

// streamCRI returns the same URL for each stream.
type streamCRI struct {
	internalapi.RuntimeService
	url       string
	sandboxes []*runtimeapi.PodSandbox

	exec        *runtimeapi.ExecRequest
	attach      *runtimeapi.AttachRequest
	portForward *runtimeapi.PortForwardRequest
	checkpoint  *runtimeapi.CheckpointContainerRequest
}

func (c *streamCRI) Exec(_ context.Context, req *runtimeapi.ExecRequest) (*runtimeapi.ExecResponse, error) {
	c.exec = req
	return &runtimeapi.ExecResponse{Url: c.url}, nil
}

func (c *streamCRI) Attach(_ context.Context, req *runtimeapi.AttachRequest) (*runtimeapi.AttachResponse, error) {
	c.attach = req
	return &runtimeapi.AttachResponse{Url: c.url}, nil
}

func (c *streamCRI) ListPodSandbox(_ context.Context, f *runtimeapi.PodSandboxFilter) ([]*runtimeapi.PodSandbox, error) {
	if f.GetState().GetState() != runtimeapi.PodSandboxState_SANDBOX_READY || f.GetLabelSelector()[podmeta.PodUIDLabel] != "uid-1" {
		return nil, errors.New("other sandboxes are asked for")
	}
	return c.sandboxes, nil
}

func (c *streamCRI) PortForward(_ context.Context, req *runtimeapi.PortForwardRequest) (*runtimeapi.PortForwardResponse, error) {
	c.portForward = req
	return &runtimeapi.PortForwardResponse{Url: c.url}, nil
}

func (c *streamCRI) CheckpointContainer(_ context.Context, req *runtimeapi.CheckpointContainerRequest) error {
	c.checkpoint = req
	return status.Error(codes.Unimplemented, "no checkpoints")
}

func TestStreamURLs(t *testing.T) {
	cri := &streamCRI{url: "http://127.0.0.1:5/exec/token"}
	r := New(Config{Runtime: cri, Agent: "me"})
	in := StreamInput{ContainerID: "c1", Command: []string{"sh"}, Stdin: true, Stdout: true, TTY: true}
	u, err := r.ExecURL(t.Context(), in)
	if err != nil || u.String() != cri.url {
		t.Errorf("exec: %v, %v", u, err)
	}
	if e := cri.exec; e.GetContainerId() != "c1" || !e.GetStdin() || !e.GetStdout() || e.GetStderr() || !e.GetTty() || e.GetCmd()[0] != "sh" {
		t.Errorf("asked for %v", e)
	}
	if u, err := r.AttachURL(t.Context(), StreamInput{ContainerID: "c1", Stderr: true}); err != nil || u.String() != cri.url || !cri.attach.GetStderr() {
		t.Errorf("attach: %v, %v, asked for %v", u, err, cri.attach)
	}
	if _, err := r.PortForwardURL(t.Context(), "uid-1", nil); !errors.Is(err, ErrNoSandbox) {
		t.Errorf("to nothing: %v", err)
	}
	sandbox := func(id, agent string, attempt uint32) *runtimeapi.PodSandbox {
		return &runtimeapi.PodSandbox{
			Id: id, Metadata: &runtimeapi.PodSandboxMetadata{Attempt: attempt}, Annotations: map[string]string{podmeta.AgentAnnotation: agent},
		}
	}
	cri.sandboxes = []*runtimeapi.PodSandbox{sandbox("older", "me", 1), sandbox("newest", "me", 2), sandbox("another's", "you", 3)}
	if u, err := r.PortForwardURL(t.Context(), "uid-1", []int32{80}); err != nil || u.String() != cri.url ||
		cri.portForward.GetPodSandboxId() != "newest" || cri.portForward.GetPort()[0] != 80 {
		t.Errorf("port forward: %v, %v, asked for %v", u, err, cri.portForward)
	}
	// The runtime's URL must not lead elsewhere.
	for _, cri.url = range []string{"http://10.0.0.1:5/exec/token", "http://example.com/", "unix:///run/sock", "ftp://127.0.0.1/", "%"} {
		for name, ask := range map[string]func() error{
			"exec":         func() error { _, err := r.ExecURL(t.Context(), in); return err },
			"attach":       func() error { _, err := r.AttachURL(t.Context(), in); return err },
			"port forward": func() error { _, err := r.PortForwardURL(t.Context(), "uid-1", nil); return err },
		} {
			if err := ask(); err == nil || !strings.Contains(err.Error(), "the container runtime's stream") {
				t.Errorf("%s at %s: %v", name, cri.url, err)
			}
		}
	}
}

func TestAttach(t *testing.T) {
	cri := &streamCRI{url: serveStreams(t, 4, func(s streams) {
		typed, _ := io.ReadAll(s["stdin"])
		_, _ = s["stdout"].Write(typed)
		s.exit(0)
	})}
	var stdout, stderr strings.Builder
	err := New(Config{Runtime: cri}).Attach(t.Context(), ExecInput{
		ContainerID: "c1", Stdin: strings.NewReader("hello"), Stdout: &stdout, Stderr: &stderr,
	})
	if err != nil || stdout.String() != "hello" || cri.attach.GetContainerId() != "c1" || !cri.attach.GetStdin() {
		t.Errorf("%v, %q, asked for %v", err, &stdout, cri.attach)
	}
}

func TestCheckpoint(t *testing.T) {
	cri := &streamCRI{}
	err := New(Config{Runtime: cri}).Checkpoint(t.Context(), "c1", "/checkpoints/a.tar", time.Minute)
	if status.Code(err) != codes.Unimplemented {
		t.Errorf("error %v", err)
	}
	if c := cri.checkpoint; c.GetContainerId() != "c1" || c.GetLocation() != "/checkpoints/a.tar" || c.GetTimeout() != 60 {
		t.Errorf("asked for %v", c)
	}
}
