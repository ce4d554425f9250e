package podctl

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/podstream/podstream/internal/podctl/podctltest"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

type logStream = grpc.ServerStreamingServer[podexecv1.ReadLogsResponse]

// What a container writes is printed byte for byte, both streams to one.
func TestLogs(t *testing.T) {
	n := newNode(t)
	n.busy(&busyPodexecd{
		pods: []*podexecv1.ObservedPod{runningPod(t, "default", "web-node1")},
		logs: func(_ *podexecv1.ReadLogsRequest, stream logStream) error {
			for _, m := range []*podexecv1.ReadLogsResponse{
				{Data: []byte("\x1b[31mred\n")}, {Data: []byte("bad\n"), Stderr: true}, {Data: []byte("half \xff")},
			} {
				if err := stream.Send(m); err != nil {
					return err
				}
			}
			return nil
		},
	})
	if code := n.run(t.Context(), "logs", "web"); code != exitOK || n.stdout.String() != "\x1b[31mred\nbad\nhalf \xff" || n.stderr.String() != "" {
		t.Errorf("exit code %d, stdout %q, stderr %q", code, n.stdout, n.stderr)
	}
}

func TestLogsFlags(t *testing.T) {
	since := timestamppb.New(time.Date(2026, 3, 1, 11, 0, 0, 0, time.UTC))
	for args, want := range map[string]*podexecv1.ReadLogsRequest{
		"":                                  {},
		"-f -c app --timestamps":            {Follow: true, Container: "app", Timestamps: true},
		"--follow --container=app -p":       {Follow: true, Container: "app", Previous: true},
		"--previous --tail=0":               {Previous: true, TailLines: proto.Int64(0)},
		"--tail 20 --limit-bytes 10":        {TailLines: proto.Int64(20), LimitBytes: proto.Int64(10)},
		"--since 90s":                       {SinceTime: podctltest.Before(90 * time.Second)},
		"--since-time 2026-03-01T11:00:00Z": {SinceTime: since},
	} {
		n := newNode(t)
		var got *podexecv1.ReadLogsRequest
		n.busy(&busyPodexecd{
			pods: []*podexecv1.ObservedPod{runningPod(t, "default", "web")},
			logs: func(req *podexecv1.ReadLogsRequest, _ logStream) error {
				got = req
				return nil
			},
		})
		if code := n.run(t.Context(), append([]string{"logs", "web"}, strings.Fields(args)...)...); code != exitOK {
			t.Errorf("%s: exit code %d: %s", args, code, n.stderr)
		}
		want.Ref = runningPod(t, "default", "web").GetRef()
		if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", args, diff)
		}
	}
}

// A follow prints output as it comes, and ends with Ctrl-C.
func TestLogsFollow(t *testing.T) {
	n := newNode(t)
	n.busy(&busyPodexecd{
		pods: []*podexecv1.ObservedPod{runningPod(t, "default", "web")},
		logs: func(_ *podexecv1.ReadLogsRequest, stream logStream) error {
			if err := stream.Send(&podexecv1.ReadLogsResponse{Data: []byte("one\n")}); err != nil {
				return err
			}
			<-stream.Context().Done()
			return nil
		},
	})
	interrupt := n.start("logs", "-f", "web")
	n.stdout.await(t, "one\n")
	if code := interrupt(); code != exitOK || n.stderr.String() != "" {
		t.Errorf("exit code %d, stderr %q", code, n.stderr)
	}
}

// As kubectl does, podctl prints which of several containers is used: on stderr, so that the log stays unchanged.
func TestLogsDefaulted(t *testing.T) {
	n := newNode(t)
	n.busy(&busyPodexecd{
		pods: []*podexecv1.ObservedPod{runningPod(t, "default", "web")},
		logs: func(_ *podexecv1.ReadLogsRequest, stream logStream) error {
			if err := stream.Send(&podexecv1.ReadLogsResponse{Defaulted: &podexecv1.DefaultedContainer{
				Name: "app", Containers: []string{"app", "side\x1b[2J"}, InitContainers: []string{"prepare"}, EphemeralContainers: []string{"dbg"},
				UnknownDefault: "gone",
			}}); err != nil {
				return err
			}
			return stream.Send(&podexecv1.ReadLogsResponse{Data: []byte("one\n")})
		},
	})
	want := "Default container name \"gone\" not found in the pod\n" +
		"Defaulted container \"app\" out of: app, side\\x1b[2J, prepare (init), dbg (ephem)\n"
	if code := n.run(t.Context(), "logs", "web"); code != exitOK || n.stdout.String() != "one\n" || n.stderr.String() != want {
		t.Errorf("exit code %d, stdout %q, stderr %q; want %q", code, n.stdout, n.stderr, want)
	}
}

func TestLogsFail(t *testing.T) {
	n := newNode(t)
	n.busy(&busyPodexecd{
		pods: []*podexecv1.ObservedPod{runningPod(t, "default", "web")},
		logs: func(*podexecv1.ReadLogsRequest, logStream) error {
			return status.Error(codes.InvalidArgument, "container: name one of app, side")
		},
	})
	if code := n.run(t.Context(), "logs", "web"); code != exitFailed || !strings.Contains(n.stderr.String(), "container: name one of app, side") {
		t.Errorf("exit code %d, stderr %q", code, n.stderr)
	}
}
