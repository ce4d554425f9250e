package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstream/podstream/internal/certtest"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// node is a healthy node, until a test changes something.
type node struct {
	podconfigv1.UnimplementedPodConfigServiceServer
	runtimeapi.UnimplementedRuntimeServiceServer

	t       *testing.T
	dir     string
	health  *health.Server
	sources []*podconfigv1.Source
	watcher *podconfigv1.Consumer
	status  *runtimeapi.StatusResponse
	config  Config
	// exec is the node's podexecd.
	exec *execService
	// user is whom the API server takes this node for, ahead how far its clock is ahead.
	user  string
	ahead time.Duration
}

func (n *node) ListSources(context.Context, *podconfigv1.ListSourcesRequest) (*podconfigv1.ListSourcesResponse, error) {
	return &podconfigv1.ListSourcesResponse{Sources: n.sources}, nil
}

func (n *node) ListConsumers(context.Context, *podconfigv1.ListConsumersRequest) (*podconfigv1.ListConsumersResponse, error) {
	return &podconfigv1.ListConsumersResponse{Consumers: []*podconfigv1.Consumer{n.watcher}}, nil
}

func (n *node) Version(context.Context, *runtimeapi.VersionRequest) (*runtimeapi.VersionResponse, error) {
	return &runtimeapi.VersionResponse{RuntimeName: "containerd", RuntimeVersion: "1.7.24"}, nil
}

func (n *node) Status(context.Context, *runtimeapi.StatusRequest) (*runtimeapi.StatusResponse, error) {
	return n.status, nil
}

// GetVersion is that of podconfigd.
func (n *node) GetVersion(context.Context, *podconfigv1.GetVersionRequest) (*podconfigv1.GetVersionResponse, error) {
	return &podconfigv1.GetVersionResponse{Version: "v1"}, nil
}

// execService is a podexecd with a version. Empty means an older podexecd without one.
type execService struct {
	podexecv1.UnimplementedPodExecServiceServer
	version string
}

func (s *execService) GetVersion(ctx context.Context, req *podexecv1.GetVersionRequest) (*podexecv1.GetVersionResponse, error) {
	if s.version == "" {
		return s.UnimplementedPodExecServiceServer.GetVersion(ctx, req)
	}
	return &podexecv1.GetVersionResponse{Version: s.version}, nil
}

const cniJSON = `{"PluginDirs": ["/opt/cni/bin"], "PluginConfDir": "/etc/cni/net.d", "Networks": [{"Config": {"Plugins": [{"Network": {"type": "ptp"}}]}}]}`

func newNode(t *testing.T) *node {
	n := &node{t: t, dir: t.TempDir(), health: health.NewServer(), user: "system:node:n1", exec: &execService{version: "v1"}}
	n.sources = []*podconfigv1.Source{{Name: "file", Location: "/m", Ready: true, PodCount: 3}}
	n.watcher = &podconfigv1.Consumer{Name: "podexecd@n1", State: podconfigv1.ConsumerState_CONSUMER_STATE_LIVE}
	n.status = &runtimeapi.StatusResponse{
		Status: &runtimeapi.RuntimeStatus{Conditions: []*runtimeapi.RuntimeCondition{
			{Type: runtimeapi.RuntimeReady, Status: true}, {Type: runtimeapi.NetworkReady, Status: true},
		}},
		Info: map[string]string{"cniconfig": cniJSON},
	}
	for _, part := range []string{"", storeHealth, runtimeHealth} {
		n.health.SetServingStatus(part, healthv1.HealthCheckResponse_SERVING)
	}
	n.write("proc/sys/net/ipv4/ip_forward", "1\n")
	n.write("sys/fs/cgroup/cgroup.controllers", "cpuset cpu io memory pids\n")
	n.write("opt/cni/bin/ptp", "")
	socket := n.serve()
	podexec, err := ParsePodexec([]string{
		"--hostname-override=n1", "--root-dir=/", "--pod-logs-dir=/", "--listen=unix://" + socket, "--container-runtime-endpoint=unix://" + socket,
		"--enable-server=false", "--unknown-flag=1",
	}, "/")
	if err != nil {
		t.Fatal(err)
	}
	conn, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	n.config = Config{
		Podconfigd: Connection{ClientConnInterface: conn}, Podexecd: Connection{ClientConnInterface: conn}, Version: "v1", Podexec: podexec, Machine: n.dir, Patience: 30 * time.Second,
	}
	return n
}

func (n *node) write(path, text string) string {
	n.t.Helper()
	path = filepath.Join(n.dir, path)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o600)); err != nil {
		n.t.Fatal(err)
	}
	return path
}

func (n *node) serve() (socket string) {
	n.t.Helper()
	socket = filepath.Join(n.t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		n.t.Fatal(err)
	}
	s := grpc.NewServer()
	healthv1.RegisterHealthServer(s, n.health)
	podconfigv1.RegisterPodConfigServiceServer(s, n)
	podexecv1.RegisterPodExecServiceServer(s, n.exec)
	runtimeapi.RegisterRuntimeServiceServer(s, n)
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	n.t.Cleanup(func() {
		s.Stop()
		if err := <-served; err != nil {
			n.t.Errorf("serve: %v", err)
		}
	})
	return socket
}

// joins makes the node one of a cluster, whose API server is n too.
func (n *node) joins() {
	n.t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Date", time.Now().Add(n.ahead).UTC().Format(http.TimeFormat))
		if n.user == "" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(authenticationv1.SelfSubjectReview{
			Status: authenticationv1.SelfSubjectReviewStatus{UserInfo: authenticationv1.UserInfo{Username: n.user, Groups: []string{"system:nodes"}}},
		})
	}))
	n.t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	n.config.Podexec.Settings.Kubeconfig = n.write("kubeconfig", "apiVersion: v1\nkind: Config\ncurrent-context: c\n"+
		"contexts: [{name: c, context: {cluster: k, user: u}}]\nclusters: [{name: k, cluster: {server: \""+server.URL+"\"}}]\nusers: [{name: u, user: {token: t}}]\n")
}

// certificate writes one that is valid for a time from now on; a negative time means expired.
func (n *node) certificate(path string, valid time.Duration) string {
	n.t.Helper()
	cert, _ := certtest.NewCA(n.t, "ca").Issue(certtest.Request{
		CommonName: "system:node:n1", NotBefore: time.Now().Add(-100 * 24 * time.Hour), NotAfter: time.Now().Add(valid),
	})
	return n.write(path, string(cert))
}
