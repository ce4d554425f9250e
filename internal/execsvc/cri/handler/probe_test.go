package handler

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/encoding/protowire"
	v1 "k8s.io/api/core/v1"
	cri "k8s.io/cri-client/pkg"
	utilexec "k8s.io/utils/exec"
)

func TestExecProbeOutcomes(t *testing.T) {
	exit := func(code int) error { return utilexec.CodeExitError{Err: errors.New("exited"), Code: code} }
	timedOut := fmt.Errorf("%w: \"sh\" timed out after 5s", cri.ErrCommandTimedOut)
	lost := errors.New("the runtime is away")
	for name, tc := range map[string]struct {
		fake    fakeExecer
		outcome Outcome
		output  string
		err     error
	}{
		"success": {fakeExecer{stdout: "out\n", stderr: "err\n"}, Success, "out\nerr\n", nil},
		"exit 1":  {fakeExecer{stderr: "bad\n", err: exit(1)}, Failure, "bad\n", nil},
		"timeout": {fakeExecer{err: timedOut}, Failure, timedOut.Error(), nil},
		"lost":    {fakeExecer{err: lost}, Failure, "", lost},
		"long": {fakeExecer{stdout: strings.Repeat("x", 9<<10), stderr: strings.Repeat("y", 9<<10)},
			Success, strings.Repeat("x", 9<<10) + strings.Repeat("y", 1<<10), nil},
	} {
		t.Run(name, func(t *testing.T) {
			probe := &v1.Probe{TimeoutSeconds: 5, ProbeHandler: v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{"sh"}}}}
			outcome, output, err := New(Config{Runtime: &tc.fake}).Probe(t.Context(), Target{ContainerID: "c1"}, probe)
			if outcome != tc.outcome || output != tc.output || !errors.Is(err, tc.err) {
				t.Errorf("got %v %q %v", outcome, output, err)
			}
			if tc.fake.id != "c1" || tc.fake.timeout != 5*time.Second {
				t.Errorf("asked %s, within %v", tc.fake.id, tc.fake.timeout)
			}
		})
	}
}

func TestExecProbeExpandsWhatThePodWritesDown(t *testing.T) {
	fake := &fakeExecer{}
	target := Target{Container: "main", Pod: &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{Name: "main", Env: []v1.EnvVar{
		{Name: "A", Value: "a"}, {Name: "FROM", ValueFrom: &v1.EnvVarSource{}},
	}}}}}}
	command := []string{"$(A)-$(A)", "$$(A)", "$(NONE)", "$(FROM)", "$A $ $(A"}
	probe := &v1.Probe{ProbeHandler: v1.ProbeHandler{Exec: &v1.ExecAction{Command: command}}}
	if _, _, err := New(Config{Runtime: fake}).Probe(t.Context(), target, probe); err != nil {
		t.Fatal(err)
	}
	if want := []string{"a-a", "$(A)", "$(NONE)", "", "$A $ $(A"}; !slices.Equal(fake.cmd, want) {
		t.Errorf("ran %q, want %q", fake.cmd, want)
	}
	if fake.timeout != time.Second {
		t.Errorf("without a timeout it is %v, want 1s", fake.timeout)
	}
}

func TestTCPProbeOutcomes(t *testing.T) {
	probe := &v1.Probe{TimeoutSeconds: 1, ProbeHandler: v1.ProbeHandler{TCPSocket: &v1.TCPSocketAction{Port: web}}}
	r := New(Config{})
	open := targetAt(t, listen(t, "127.0.0.1:0").Addr().String())
	if outcome, output, err := r.Probe(t.Context(), open, probe); outcome != Success || err != nil {
		t.Errorf("open port: %v %q %v", outcome, output, err)
	}
	closed := targetAt(t, closedPort(t))
	if outcome, output, err := r.Probe(t.Context(), closed, probe); outcome != Failure || !strings.Contains(output, "connection refused") || err != nil {
		t.Errorf("closed port: %v %q %v", outcome, output, err)
	}
	full := targetAt(t, fullPort(t))
	if outcome, output, err := r.Probe(t.Context(), full, probe); outcome != Failure || !strings.Contains(output, "timeout") || err != nil {
		t.Errorf("full port: %v %q %v", outcome, output, err)
	}
	if _, _, err := r.Probe(t.Context(), Target{PodIP: "127.0.0.1"}, probe); err == nil {
		t.Error("a port that the container hasn't got was asked")
	}
}

func TestProbeWithoutHandlerIsAnError(t *testing.T) {
	if _, _, err := New(Config{}).Probe(t.Context(), Target{}, &v1.Probe{}); err == nil {
		t.Error("no error")
	}
}

func serveGRPC(t *testing.T, register func(*grpc.Server)) Target {
	t.Helper()
	l := listen(t, "127.0.0.1:0")
	server := grpc.NewServer()
	register(server)
	served := make(chan error)
	go func() { served <- server.Serve(l) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return targetAt(t, l.Addr().String())
}

// slowHealth never answers, and records the calls.
type slowHealth struct {
	healthpb.UnimplementedHealthServer
	agent chan string
}

func (s slowHealth) Check(ctx context.Context, _ *healthpb.HealthCheckRequest) (*healthpb.HealthCheckResponse, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	s.agent <- strings.Join(md.Get("user-agent"), " ")
	<-ctx.Done()
	return nil, ctx.Err()
}

// wordyHealth answers with more than a probe accepts.
type wordyHealth struct {
	healthpb.UnimplementedHealthServer
}

func (wordyHealth) Check(context.Context, *healthpb.HealthCheckRequest) (*healthpb.HealthCheckResponse, error) {
	answer := &healthpb.HealthCheckResponse{Status: healthpb.HealthCheckResponse_SERVING}
	// An unknown field.
	answer.ProtoReflect().SetUnknown(protowire.AppendString(protowire.AppendTag(nil, 99, protowire.BytesType), strings.Repeat("x", 2*maxOutput)))
	return answer, nil
}

func TestGRPCProbeOutcomes(t *testing.T) {
	services := health.NewServer()
	services.SetServingStatus("up", healthpb.HealthCheckResponse_SERVING)
	services.SetServingStatus("down", healthpb.HealthCheckResponse_NOT_SERVING)
	serving := serveGRPC(t, func(s *grpc.Server) { healthpb.RegisterHealthServer(s, services) })
	bare := serveGRPC(t, func(*grpc.Server) {})
	wordy := serveGRPC(t, func(s *grpc.Server) { healthpb.RegisterHealthServer(s, wordyHealth{}) })
	slowly := slowHealth{agent: make(chan string, 1)}
	slow := serveGRPC(t, func(s *grpc.Server) { healthpb.RegisterHealthServer(s, slowly) })
	mute := targetAt(t, listen(t, "127.0.0.1:0").Addr().String())
	for name, tc := range map[string]struct {
		target  Target
		service string
		outcome Outcome
		output  string // a part of it
	}{
		"whole server":    {serving, "", Success, "service healthy"},
		"service up":      {serving, "up", Success, "service healthy"},
		"service down":    {serving, "down", Failure, `service unhealthy (responded with "NOT_SERVING")`},
		"unknown service": {serving, "other", Failure, "error: health rpc probe failed: rpc error: code = NotFound"},
		"no health":       {bare, "", Failure, "error: this server does not implement the grpc health protocol"},
		"endless":         {wordy, "", Failure, "error: health rpc probe failed: rpc error: code = ResourceExhausted"},
		"slow":            {slow, "", Failure, "timeout: health rpc did not complete within 1s"},
		"mute":            {mute, "", Failure, "timeout: failed to connect service"},
		"no listener":     {targetAt(t, closedPort(t)), "", Failure, "timeout: failed to connect service"},
	} {
		t.Run(name, func(t *testing.T) {
			port := tc.target.Ports[1].ContainerPort
			probe := &v1.Probe{TimeoutSeconds: 1, ProbeHandler: v1.ProbeHandler{GRPC: &v1.GRPCAction{Port: port, Service: &tc.service}}}
			outcome, output, err := New(Config{Version: "1.37"}).Probe(t.Context(), tc.target, probe)
			if outcome != tc.outcome || !strings.HasPrefix(output, tc.output) || err != nil {
				t.Errorf("got %v %q %v, want %v %q", outcome, output, err, tc.outcome, tc.output)
			}
		})
	}
	if agent := <-slowly.agent; !strings.HasPrefix(agent, "kube-probe/1.37 ") {
		t.Errorf("User-Agent %q", agent)
	}
}

// TestProbeEndsWithItsContext: a probe that hangs doesn't outlive its pod.
func TestProbeEndsWithItsContext(t *testing.T) {
	mute := listen(t, "127.0.0.1:0")
	target := targetAt(t, mute.Addr().String())
	for name, h := range map[string]v1.ProbeHandler{
		"http": {HTTPGet: &v1.HTTPGetAction{Port: web}},
		"grpc": {GRPC: &v1.GRPCAction{Port: target.Ports[1].ContainerPort}},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			accepted := make(chan net.Conn, 1)
			go func() {
				conn, _ := mute.Accept()
				cancel()
				accepted <- conn
			}()
			probe := &v1.Probe{TimeoutSeconds: 3600, ProbeHandler: h}
			if outcome, _, _ := New(Config{}).Probe(ctx, target, probe); outcome != Failure {
				t.Errorf("got %v", outcome)
			}
			if conn := <-accepted; conn != nil {
				_ = conn.Close()
			}
		})
	}
}
