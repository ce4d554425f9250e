package podexecapi

import (
	"context"
	"net"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstream/podstream/internal/access"
	"github.com/podstream/podstream/internal/execsvc/pod/podview"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// remoteStream is a stream of a caller.
type remoteStream struct {
	grpc.ServerStream
	ctx context.Context
}

func (s remoteStream) Context() context.Context { return s.ctx }

// remote serves s over gRPC until the test ends, and calls it as caller.
func remote(t *testing.T, s *Server, caller access.Caller) podexecv1.PodExecServiceClient {
	t.Helper()
	const buffer = 1 << 20
	listener := bufconn.Listen(buffer)
	server := grpc.NewServer(grpc.StreamInterceptor(
		func(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
			return handle(srv, remoteStream{stream, access.NewContext(stream.Context(), caller)})
		}))
	podexecv1.RegisterPodExecServiceServer(server, s)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		<-served
	})
	conn, err := grpc.NewClient("passthrough:///podexecd", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return podexecv1.NewPodExecServiceClient(conn)
}

// boardOf shows the pods.
func boardOf(pods ...podview.Pod) *podview.Board {
	b := podview.New()
	for _, p := range pods {
		b.Set(p)
	}
	return b
}

// twoContainers is a pod of the file source: main runs as its third container, and side waits for its first.
func twoContainers() podview.Pod {
	return podview.Pod{
		UID: "uid-two", Namespace: "default", Name: "two", Source: "file", Desired: true,
		Object: &v1.Pod{
			ObjectMeta: metav1.ObjectMeta{UID: "uid-two", Namespace: "default", Name: "two"},
			Spec: v1.PodSpec{
				InitContainers: []v1.Container{{Name: "prepare"}}, Containers: []v1.Container{{Name: "main"}, {Name: "side"}},
			},
		},
		Status: &v1.PodStatus{
			Phase: v1.PodRunning,
			InitContainerStatuses: []v1.ContainerStatus{{
				Name: "prepare", ContainerID: "containerd://id-prepare",
				State: v1.ContainerState{Terminated: &v1.ContainerStateTerminated{}},
			}},
			ContainerStatuses: []v1.ContainerStatus{
				{
					Name: "main", ContainerID: "containerd://id-main", RestartCount: 2,
					State: v1.ContainerState{Running: &v1.ContainerStateRunning{}},
				},
				{Name: "side", State: v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: "ImagePullBackOff"}}},
			},
		},
	}
}
