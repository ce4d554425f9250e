package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
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
	runtimeapi.UnimplementedImageServiceServer

	t       *testing.T
	dir     string
	health  *health.Server
	sources []*podconfigv1.Source
	watcher *podconfigv1.Consumer
	version string
	status  *runtimeapi.StatusResponse
	// containers is the directory of containers that the runtime reports; empty: none.
	containers string
	// driver is the runtime's answer on its cgroup driver, which driverErr is in place of.
	driver    *runtimeapi.LinuxRuntimeConfiguration
	driverErr error
	config    Config
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
	return &runtimeapi.VersionResponse{RuntimeName: "containerd", RuntimeVersion: n.version}, nil
}

func (n *node) RuntimeConfig(context.Context, *runtimeapi.RuntimeConfigRequest) (*runtimeapi.RuntimeConfigResponse, error) {
	return &runtimeapi.RuntimeConfigResponse{Linux: n.driver}, n.driverErr
}

func (n *node) ImageFsInfo(context.Context, *runtimeapi.ImageFsInfoRequest) (*runtimeapi.ImageFsInfoResponse, error) {
	info := &runtimeapi.ImageFsInfoResponse{ImageFilesystems: []*runtimeapi.FilesystemUsage{
		{FsId: &runtimeapi.FilesystemIdentifier{Mountpoint: "/var/lib/containerd"}},
	}}
	if n.containers != "" {
		info.ContainerFilesystems = []*runtimeapi.FilesystemUsage{{FsId: &runtimeapi.FilesystemIdentifier{Mountpoint: n.containers}}}
	}
	return info, nil
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

// handlersJSON is containerd's configuration of its handlers, as its status has it: for %t, whether runc uses systemd.
const handlersJSON = `{"containerd": {"defaultRuntimeName": "runc", "runtimes": {
	"runc": {"options": {"SystemdCgroup": %t}}, "kata": {"options": null}}}}`

// podexecdPID is the ID of podexecd's process in the files of machines.
const podexecdPID = 4711

// programs is the directory with the programs that podexecd has for volumes.
const programs = "proc/4711/root/usr/"

// newNode returns a healthy node with systemd, cgroup v2 and containerd 2.
func newNode(t *testing.T) *node {
	n := machineNode(t, "v2.txt")
	n.driver = &runtimeapi.LinuxRuntimeConfiguration{CgroupDriver: runtimeapi.CgroupDriver_SYSTEMD}
	n.handlers(true)
	n.write("sys/fs/cgroup/cgroup.controllers", "cpuset cpu io memory hugetlb pids\n")
	n.write("proc/pressure/memory", "")
	n.write("proc/sys/net/ipv4/ip_forward", "1\n")
	for _, s := range sysctls {
		n.write("proc/sys/"+strings.ReplaceAll(s.name, ".", "/"), fmt.Sprint(s.want))
	}
	n.write(fmt.Sprintf("proc/%d/oom_score_adj", podexecdPID), "-999\n")
	return n
}

// handlers sets the runtime's handlers: all have all features, and runc uses systemd, or doesn't.
func (n *node) handlers(systemd bool) {
	all := &runtimeapi.RuntimeHandlerFeatures{UserNamespaces: true, RecursiveReadOnlyMounts: true}
	n.status.RuntimeHandlers = []*runtimeapi.RuntimeHandler{{Features: all}, {Name: "runc", Features: all}}
	n.status.Features = &runtimeapi.RuntimeFeatures{SupplementalGroupsPolicy: true}
	n.status.Info["config"] = fmt.Sprintf(handlersJSON, systemd)
}

// record writes the files of a machine, from testdata.
func (n *node) record(name string) {
	n.t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		n.t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "\n-- ")
	for file := range strings.SplitSeq(rest, "\n-- ") {
		path, content, ok := strings.Cut(file, " --\n")
		if !ok {
			n.t.Fatalf("testdata/%s: %q is no file", name, file)
		}
		path = strings.NewReplacer("PODEXECD", strconv.Itoa(podexecdPID), "RUNTIME", strconv.Itoa(os.Getpid())).Replace(path)
		n.write(path, content+"\n")
	}
	for _, process := range []int{podexecdPID, os.Getpid()} {
		n.link(fmt.Sprintf("proc/%d/ns/mnt", process), "mnt:[1]")
	}
}

// link makes a symbolic link, in place of the one before.
func (n *node) link(path, target string) {
	n.t.Helper()
	path = filepath.Join(n.dir, path)
	_ = os.Remove(path) // There may be none.
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.Symlink(target, path)); err != nil {
		n.t.Fatal(err)
	}
}

// machineNode returns a node on the recorded machine.
func machineNode(t *testing.T, machine string) *node {
	n := &node{t: t, dir: t.TempDir(), health: health.NewServer(), user: "system:node:n1", exec: &execService{version: "v1"}, version: "2.4.2"}
	n.record(machine)
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
	n.write("opt/cni/bin/ptp", "")
	n.write(fmt.Sprintf("proc/%d/root/dev/kmsg", podexecdPID), "")
	for _, program := range []string{"bin/mount", "sbin/blkid", "sbin/fsck", "sbin/mkfs.ext4", "sbin/mount.nfs", "sbin/iscsiadm"} {
		n.write(programs+program, "")
		n.mode(programs+program, 0o755)
	}
	n.write(fmt.Sprintf("proc/%d/net/unix", podexecdPID), "Num       RefCount Protocol Flags    Type St Inode Path\n"+
		"0000000000000000: 00000002 00000000 00010000 0001 01 10010 @ISCSIADM_ABSTRACT_NAMESPACE\n")
	socket := n.serve()
	podexec, err := ParsePodexec([]string{
		"--hostname-override=n1", "--root-dir=/", "--kubelet-dir=/var/lib/kubelet", "--pod-logs-dir=/", "--listen=unix://" + socket, "--container-runtime-endpoint=unix://" + socket,
		"--enable-server=false", "--unknown-flag=1",
	}, "/")
	if err != nil {
		t.Fatal(err)
	}
	podexec.PID = podexecdPID
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

// mode changes the mode of a file.
func (n *node) mode(path string, mode os.FileMode) {
	n.t.Helper()
	if err := os.Chmod(filepath.Join(n.dir, path), mode); err != nil {
		n.t.Fatal(err)
	}
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
	runtimeapi.RegisterImageServiceServer(s, n)
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
