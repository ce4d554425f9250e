package podsapi

import (
	"net"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	podsv1alpha1 "k8s.io/kubelet/pkg/apis/pods/v1alpha1"

	"github.com/podstream/podstream/internal/execsvc/pod/podview"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// shown is a pod that runs; its object says that it is pending, as the manifest's does.
func shown(name string) podview.Pod {
	return podview.Pod{
		UID: types.UID("uid-" + name), Namespace: "default", Name: name, Source: "file", Desired: true,
		Object: &v1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("uid-" + name), Labels: map[string]string{"app": name}},
			Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "main", Image: "img"}}},
			Status:     v1.PodStatus{Phase: v1.PodPending},
		},
		Status: &v1.PodStatus{Phase: v1.PodRunning, PodIP: "10.88.0.2"},
	}
}

// unclaimed is a pod that was only found running.
func unclaimed(name string) podview.Pod {
	p := shown(name)
	p.Object, p.Desired = nil, false
	return p
}

// dial serves the board on a real socket.
func dial(t *testing.T, b *podview.Board) (podsv1alpha1.PodsClient, *Server) {
	t.Helper()
	return dialWith(t, New(b, nil))
}

func dialWith(t *testing.T, s *Server) (podsv1alpha1.PodsClient, *Server) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	podsv1alpha1.RegisterPodsServer(server, s)
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	conn, err := grpc.NewClient("unix://"+path, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = conn.Close()
		s.Close()
		server.GracefulStop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return podsv1alpha1.NewPodsClient(conn), s
}

func decode(t *testing.T, data []byte) *v1.Pod {
	t.Helper()
	pod := &v1.Pod{}
	if err := pod.Unmarshal(data); err != nil {
		t.Fatal(err)
	}
	return pod
}

func TestListAndGet(t *testing.T) {
	b := podview.New()
	for _, p := range []podview.Pod{shown("web"), unclaimed("found"), shown("db")} {
		b.Set(p)
	}
	client, _ := dial(t, b)
	resp, err := client.ListPods(t.Context(), &podsv1alpha1.ListPodsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, data := range resp.GetPods() {
		names = append(names, decode(t, data).Name)
	}
	if diff := cmp.Diff([]string{"db", "web"}, names); diff != "" {
		t.Errorf("listed (-want +got):\n%s", diff)
	}
	got, err := client.GetPod(t.Context(), &podsv1alpha1.GetPodRequest{PodUID: "uid-web"})
	if err != nil {
		t.Fatal(err)
	}
	want := shown("web").Object
	want.Status = *shown("web").Status
	if diff := cmp.Diff(want, decode(t, got.GetPod())); diff != "" {
		t.Errorf("the pod with its status of now (-want +got):\n%s", diff)
	}
	if p, _ := b.Get("uid-web"); p.Object.Status.Phase != v1.PodPending {
		t.Error("the object on the board was changed")
	}
	for uid, want := range map[string]codes.Code{"": codes.InvalidArgument, "uid-none": codes.NotFound, "uid-found": codes.NotFound} {
		if _, err := client.GetPod(t.Context(), &podsv1alpha1.GetPodRequest{PodUID: uid}); status.Code(err) != want {
			t.Errorf("GetPod of %q: %v; want %s", uid, err, want)
		}
	}
}

func TestPodWithoutStatus(t *testing.T) {
	b := podview.New()
	p := shown("web")
	p.Status = nil
	b.Set(p)
	client, _ := dial(t, b)
	got, err := client.GetPod(t.Context(), &podsv1alpha1.GetPodRequest{PodUID: "uid-web"})
	if err != nil || decode(t, got.GetPod()).Status.Phase != v1.PodPending {
		t.Errorf("%v, %v; want it as it is desired", got, err)
	}
}
