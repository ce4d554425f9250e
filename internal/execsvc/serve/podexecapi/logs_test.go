package podexecapi

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/timestamppb"
	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/podstream/podstream/internal/access"
	"github.com/podstream/podstream/internal/execsvc/cri/runtime"
	"github.com/podstream/podstream/internal/execsvc/pod/podview"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// logs reads the logs that the request selects.
type logs func(ctx context.Context, in runtime.LogInput) error

func (l logs) ReadLog(ctx context.Context, in runtime.LogInput) error { return l(ctx, in) }

// readLogs reads a stream to its end: what it brought on both streams, and in how many pieces.
func readLogs(t *testing.T, s *Server, caller access.Caller, req *podexecv1.ReadLogsRequest) (stdout, stderr string, pieces int, err error) {
	t.Helper()
	stream, err := remote(t, s, caller).ReadLogs(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return out.String(), errs.String(), pieces, nil
		}
		if err != nil {
			return out.String(), errs.String(), pieces, err
		}
		pieces++
		if len(m.GetData()) > maxPiece {
			t.Errorf("a piece of %d bytes", len(m.GetData()))
		}
		if m.GetStderr() {
			errs.Write(m.GetData())
		} else {
			out.Write(m.GetData())
		}
	}
}

func TestReadLogs(t *testing.T) {
	var asked runtime.LogInput
	long := strings.Repeat("x", 3*maxPiece/2)
	server := New(Config{Board: boardOf(twoContainers()), Logs: logs(func(_ context.Context, in runtime.LogInput) error {
		asked = in
		for _, line := range []string{"one\n", "two\n", long} {
			if _, err := io.WriteString(in.Stdout, line); err != nil {
				return err
			}
		}
		_, err := io.WriteString(in.Stderr, "bad\n")
		return err
	})})
	since := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	stdout, stderr, pieces, err := readLogs(t, server, consumer, &podexecv1.ReadLogsRequest{
		Ref: &podconfigv1.PodRef{Name: "two"}, Container: "main", Follow: true, SinceTime: timestamppb.New(since),
		TailLines: ptr.To[int64](5), LimitBytes: ptr.To[int64](6), Timestamps: true,
	})
	if err != nil || stdout != "one\ntwo\n"+long || stderr != "bad\n" || pieces != 3 {
		t.Errorf("error %v, stdout of %d bytes, stderr %q, %d pieces; want 3", err, len(stdout), stderr, pieces)
	}
	if asked.UID != "uid-two" || asked.Namespace != "default" || asked.Name != "two" || asked.Container != "main" || asked.Attempt != 2 ||
		asked.ContainerID != "id-main" || !asked.Follow || !asked.Timestamps || !asked.Since.Equal(since) ||
		*asked.TailLines != 5 || *asked.LimitBytes != 6 {
		t.Errorf("asked for %+v", asked)
	}
}

// What a container writes is sent when it writes nothing more, not when a piece is full.
func TestReadLogsFollows(t *testing.T) {
	server := New(Config{Board: boardOf(twoContainers()), Logs: logs(func(ctx context.Context, in runtime.LogInput) error {
		if _, err := io.WriteString(in.Stdout, "one\n"); err != nil {
			return err
		}
		if err := in.Idle(); err != nil {
			return err
		}
		<-ctx.Done()
		return ctx.Err()
	})})
	stream, err := remote(t, server, consumer).ReadLogs(t.Context(), &podexecv1.ReadLogsRequest{
		Ref: &podconfigv1.PodRef{Name: "two"}, Container: "main", Follow: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	if m, err := stream.Recv(); err != nil || string(m.GetData()) != "one\n" {
		t.Fatalf("%v, %v", m, err)
	}
	server.Close()
	if _, err := stream.Recv(); status.Code(err) != codes.Unavailable {
		t.Errorf("after Close: %v; want UNAVAILABLE", err)
	}
}

// TestReadLogsAttempts: which of a container's logs is meant.
func TestReadLogsAttempts(t *testing.T) {
	running := v1.ContainerState{Running: &v1.ContainerStateRunning{}}
	ended := v1.ContainerState{Terminated: &v1.ContainerStateTerminated{}}
	waiting := v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}
	for _, tc := range []struct {
		name        string
		state, last v1.ContainerState
		restarts    int32
		previous    bool
		there       []uint32
		want        []uint32
		code        codes.Code
	}{
		{name: "the running one", state: running, restarts: 3, there: []uint32{2, 3}, want: []uint32{3}},
		{name: "the ended one", state: ended, restarts: 3, there: []uint32{3}, want: []uint32{3}},
		{name: "the one before", state: running, last: ended, restarts: 3, previous: true, there: []uint32{2, 3}, want: []uint32{2}},
		{name: "before, though the runtime has forgotten it", state: running, restarts: 3, previous: true, there: []uint32{2, 3}, want: []uint32{2}},
		{name: "before the first", state: running, previous: true, there: []uint32{0}, code: codes.NotFound},
		{name: "in a crash loop", state: waiting, last: ended, restarts: 3, there: []uint32{2, 3}, want: []uint32{3}},
		{name: "before, in a crash loop", state: waiting, last: ended, restarts: 3, previous: true, there: []uint32{3}, want: []uint32{3}},
		{name: "in a crash loop, counted on", state: waiting, last: ended, restarts: 3, there: []uint32{2}, want: []uint32{3, 2}},
		{name: "not started yet", state: waiting, there: []uint32{0}, code: codes.FailedPrecondition},
		{name: "removed", state: running, restarts: 3, want: []uint32{3}, code: codes.NotFound},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := twoContainers()
			c := &p.Status.ContainerStatuses[0]
			c.State, c.LastTerminationState, c.RestartCount = tc.state, tc.last, tc.restarts
			var asked []uint32
			server := New(Config{Board: boardOf(p), Logs: logs(func(_ context.Context, in runtime.LogInput) error {
				asked = append(asked, in.Attempt)
				if running := tc.state.Running != nil && !tc.previous; (in.ContainerID != "") != running {
					t.Errorf("container %q is to be followed; want one: %v", in.ContainerID, running)
				}
				if !slices.Contains(tc.there, in.Attempt) {
					return runtime.ErrNoLog
				}
				return nil
			})})
			_, _, _, err := readLogs(t, server, consumer, &podexecv1.ReadLogsRequest{
				Ref: &podconfigv1.PodRef{Uid: "uid-two"}, Container: "main", Previous: tc.previous,
			})
			if status.Code(err) != tc.code || !slices.Equal(asked, tc.want) {
				t.Errorf("error %v, asked for attempts %v; want %s and %v", err, asked, tc.code, tc.want)
			}
		})
	}
}

// TestContainerChoice: which container is meant if none is named, or a wrong one.
func TestContainerChoice(t *testing.T) {
	single, annotated, found := twoContainers(), twoContainers(), twoContainers()
	single.Object.Spec.Containers = single.Object.Spec.Containers[:1]
	annotated.Object.Annotations = map[string]string{defaultContainerAnnotation: "side"}
	found.Object, found.Status.ContainerStatuses, found.Status.InitContainerStatuses = nil, found.Status.ContainerStatuses[:1], nil
	alone := twoContainers()
	alone.Object.Spec.Containers, alone.Object.Spec.InitContainers = alone.Object.Spec.Containers[:1], nil
	mistaken := twoContainers()
	mistaken.Object.Annotations = map[string]string{defaultContainerAnnotation: "gone"}
	several := &podexecv1.DefaultedContainer{Name: "main", Containers: []string{"main", "side"}, InitContainers: []string{"prepare"}}
	bad := &podexecv1.DefaultedContainer{Name: "main", Containers: several.Containers, InitContainers: several.InitContainers, UnknownDefault: "gone"}
	empty := twoContainers()
	empty.Object, empty.Status = nil, nil
	for _, tc := range []struct {
		name, asked, want string
		pod               podview.Pod
		reported          *podexecv1.DefaultedContainer
		code              codes.Code
	}{
		{"the only ordinary one", "", "main", single,
			&podexecv1.DefaultedContainer{Name: "main", Containers: []string{"main"}, InitContainers: []string{"prepare"}}, codes.OK},
		{"the only one", "", "main", alone, nil, codes.OK},
		{"the annotated one", "", "side", annotated, nil, codes.OK},
		{"another than annotated", "main", "main", annotated, nil, codes.OK},
		{"annotated wrongly", "", "main", mistaken, bad, codes.OK},
		{"the first of several", "", "main", twoContainers(), several, codes.OK},
		{"an init container", "prepare", "prepare", twoContainers(), nil, codes.OK},
		{"none of them", "nothing", "", twoContainers(), nil, codes.NotFound},
		{"of a pod that was only found", "", "main", found, nil, codes.OK},
		{"of a pod of which nothing is known", "", "", empty, nil, codes.FailedPrecondition},
	} {
		c, err := container(tc.pod, tc.asked)
		if status.Code(err) != tc.code || err == nil && c.Name != tc.want {
			t.Errorf("%s: %v, error %v; want %q, %s", tc.name, c, err, tc.want, tc.code)
		}
		if diff := cmp.Diff(tc.reported, c.defaulted, protocmp.Transform()); diff != "" {
			t.Errorf("%s: the caller is told (-want +got):\n%s", tc.name, diff)
		}
	}
}

// A caller that names no container first receives the name of the default one.
func TestReadLogsDefaulted(t *testing.T) {
	server := New(Config{Board: boardOf(twoContainers()), Logs: logs(func(_ context.Context, in runtime.LogInput) error {
		_, err := io.WriteString(in.Stdout, in.Container)
		return err
	})})
	stream, err := remote(t, server, consumer).ReadLogs(t.Context(), &podexecv1.ReadLogsRequest{Ref: &podconfigv1.PodRef{Name: "two"}})
	if err != nil {
		t.Fatal(err)
	}
	first, err := stream.Recv()
	if err != nil || first.GetDefaulted().GetName() != "main" || len(first.GetData()) > 0 {
		t.Fatalf("the first message is %v, %v; want that main was taken", first, err)
	}
	if second, err := stream.Recv(); err != nil || second.GetDefaulted() != nil || string(second.GetData()) != "main" {
		t.Errorf("the second message is %v, %v; want the log of main", second, err)
	}
}

func TestReadLogsRefuses(t *testing.T) {
	broken := logs(func(context.Context, runtime.LogInput) error { return errors.New("the disk is broken") })
	whole := func() *podexecv1.ReadLogsRequest {
		return &podexecv1.ReadLogsRequest{Ref: &podconfigv1.PodRef{Name: "two"}, Container: "main"}
	}
	for _, tc := range []struct {
		name   string
		caller access.Caller
		change func(*podexecv1.ReadLogsRequest)
		want   codes.Code
	}{
		{"an inspector", access.Caller{Role: access.Inspector}, func(*podexecv1.ReadLogsRequest) {}, codes.PermissionDenied},
		{"out of scope", access.Caller{Role: access.Consumer, Sources: []string{"api"}}, func(*podexecv1.ReadLogsRequest) {}, codes.NotFound},
		{"no pod", consumer, func(r *podexecv1.ReadLogsRequest) { r.Ref = nil }, codes.InvalidArgument},
		{"another pod", consumer, func(r *podexecv1.ReadLogsRequest) { r.Ref.Name = "three" }, codes.NotFound},
		{"negative lines", consumer, func(r *podexecv1.ReadLogsRequest) { r.TailLines = ptr.To[int64](-1) }, codes.InvalidArgument},
		{"negative bytes", consumer, func(r *podexecv1.ReadLogsRequest) { r.LimitBytes = ptr.To[int64](-1) }, codes.InvalidArgument},
		{"no time", consumer, func(r *podexecv1.ReadLogsRequest) { r.SinceTime = &timestamppb.Timestamp{Nanos: -1} }, codes.InvalidArgument},
		{"a log that can't be read", consumer, func(*podexecv1.ReadLogsRequest) {}, codes.Internal},
	} {
		req := whole()
		tc.change(req)
		if _, _, _, err := readLogs(t, New(Config{Board: boardOf(twoContainers()), Logs: broken}), tc.caller, req); status.Code(err) != tc.want {
			t.Errorf("%s: error %v; want %s", tc.name, err, tc.want)
		}
	}
	if _, _, _, err := readLogs(t, New(Config{Board: podview.New()}), consumer, whole()); status.Code(err) != codes.Unimplemented {
		t.Errorf("without a reader: %v; want UNIMPLEMENTED", err)
	}
}

// Followers are limited for each identity; one above the limit gets an error.
func TestReadLogsFollowers(t *testing.T) {
	server := New(Config{Board: boardOf(twoContainers()), Logs: logs(func(context.Context, runtime.LogInput) error {
		return runtime.ErrTooManyFollows
	})})
	_, _, _, err := readLogs(t, server, consumer, &podexecv1.ReadLogsRequest{Ref: &podconfigv1.PodRef{Name: "two"}, Container: "main", Follow: true})
	if status.Code(err) != codes.ResourceExhausted {
		t.Errorf("one too many: %v; want RESOURCE_EXHAUSTED", err)
	}
}
