package containerd

import (
	"context"
	"net"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve starts a server that answers every request with that error, and returns its endpoint. It sends each request to
// requests as "METHOD NAMESPACE CONTAINER".
func serve(t *testing.T, answer error) (endpoint string, requests *[]string) {
	t.Helper()
	requests = &[]string{}
	server := grpc.NewServer(grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
		var id wrapperspb.StringValue
		if err := stream.RecvMsg(&id); err != nil {
			return err
		}
		method, _ := grpc.MethodFromServerStream(stream)
		headers, _ := metadata.FromIncomingContext(stream.Context())
		namespaces := headers.Get("containerd-namespace")
		*requests = append(*requests, method+" "+slices.Concat(namespaces, []string{""})[0]+" "+id.GetValue())
		if answer != nil {
			return answer
		}
		return stream.SendMsg(&emptypb.Empty{})
	}))
	path := filepath.Join(t.TempDir(), "s")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return "unix://" + path, requests
}

func TestDelete(t *testing.T) {
	for name, tc := range map[string]struct {
		answer error
		want   codes.Code
	}{
		"deleted":            {nil, codes.OK},
		"no task":            {status.Error(codes.NotFound, "task c1 not found"), codes.OK},
		"running":            {status.Error(codes.FailedPrecondition, "cannot delete a running process"), codes.FailedPrecondition},
		"another runtime":    {status.Error(codes.Unimplemented, "unknown service"), codes.Unimplemented},
		"containerd is busy": {status.Error(codes.DeadlineExceeded, "the shim doesn't answer"), codes.DeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			endpoint, requests := serve(t, tc.answer)
			tasks, err := NewTasks(endpoint, time.Minute)
			if err != nil {
				t.Fatal(err)
			}
			defer tasks.Close()
			if err := tasks.Delete(t.Context(), "c1"); status.Code(err) != tc.want {
				t.Errorf("Delete: %v; want %v", err, tc.want)
			}
			if want := []string{"/containerd.services.tasks.v1.Tasks/Delete k8s.io c1"}; !slices.Equal(*requests, want) {
				t.Errorf("requests %q; want %q", *requests, want)
			}
		})
	}
}

// A containerd that doesn't answer delays the caller only until the time limit.
func TestDeleteTimesOut(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	tasks, err := NewTasks("unix://"+path, 50*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	defer tasks.Close()
	if err := tasks.Delete(context.Background(), "c1"); status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("Delete: %v; want DeadlineExceeded", err)
	}
}
