package csivolume

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstream/podstream/internal/execsvc/setup/csi"
	"github.com/podstream/podstream/internal/execsvc/setup/foreign"
	"github.com/podstream/podstream/internal/execsvc/setup/plugins"
	"github.com/podstream/podstream/internal/execsvc/setup/storage"
	"github.com/podstream/podstream/internal/kubeletdir"
)

func TestMain(m *testing.M) {
	foreign.Main()
	goleak.VerifyTestMain(m)
}

const (
	driverName = "csi.example.com"
	handle     = "vol-1/..^x"
	podUID     = "5d3b0a8c-1111-2222-3333-444455556666"
)

func must(t *testing.T, errs ...error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// bench is a node with one driver.
type bench struct {
	*Backend
	*Resolver
	t       *testing.T
	cfg     Config
	kubelet string
	driver  *fakeDriver
	log     *bytes.Buffer
	metrics *prometheus.Registry

	spec    *storagev1.CSIDriverSpec
	pv      *v1.PersistentVolume
	secrets map[string]map[string]string
}

// newBench starts a driver with these capabilities, and registers it.
func newBench(t *testing.T, can ...csipb.NodeServiceCapability_RPC_Type) *bench {
	t.Helper()
	dir, err := os.MkdirTemp("", "csiv") // t.TempDir is too long for the name of a socket.
	must(t, err)
	kubelet := filepath.Join(dir, "kubelet")
	n := &bench{
		t: t, kubelet: kubelet, log: &bytes.Buffer{}, metrics: prometheus.NewRegistry(), secrets: map[string]map[string]string{},
		driver: &fakeDriver{base: filepath.Join(dir, "volume"), can: can}, pv: persistentVolume(),
	}
	must(t, os.MkdirAll(kubeletdir.Plugins(kubelet), 0o750), os.MkdirAll(kubeletdir.PodsDir(kubelet), 0o750), os.Mkdir(n.driver.base, 0o755))
	must(t, os.WriteFile(filepath.Join(n.driver.base, "canary"), []byte("data"), 0o600))
	t.Cleanup(func() { n.end(dir) })

	server := grpc.NewServer(grpc.UnaryInterceptor(n.driver.handle))
	csipb.RegisterNodeServer(server, n.driver)
	l, err := net.Listen("unix", filepath.Join(dir, "csi.sock"))
	must(t, err)
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	n.driver.stop = sync.OnceFunc(func() { server.Stop(); <-done })
	t.Cleanup(n.driver.stop)

	n.cfg = Config{
		KubeletDir: kubelet, Node: "node-1", Drivers: csi.New(csi.Config{CallLimit: time.Minute, Metrics: n.metrics}), Claims: n, CSIDrivers: n, Secrets: n,
		Log: slog.New(slog.NewTextHandler(n.log, nil)),
	}
	e, err := plugins.NewEndpoint(filepath.Join(dir, "csi.sock"), dir)
	must(t, err)
	instance, err := n.cfg.Drivers.Open(t.Context(), plugins.Plugin{Type: plugins.CSIPlugin, Name: driverName, Endpoint: e, Versions: []string{"1.0.0"}})
	must(t, err)
	instance.Use()
	t.Cleanup(instance.Close)
	n.restart()
	t.Cleanup(func() { n.Close() })
	return n
}

// restart is a start of podexecd with the bench's configuration.
func (n *bench) restart() {
	if n.Backend != nil {
		n.Close()
	}
	n.Backend, n.Resolver = New(n.cfg), NewResolver(n.cfg)
}

// end checks that the volume's data are there, unmounts everything and removes the node.
func (n *bench) end(dir string) {
	if data, err := os.ReadFile(filepath.Join(n.driver.base, "canary")); err != nil || string(data) != "data" {
		n.t.Errorf("the data of the volume are lost: %q, %v", data, err)
	}
	// A bind mount may be over another one.
	for range 10 {
		for _, path := range []string{n.mount(), n.dir(), n.staging()} {
			_ = unix.Unmount(path, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
		}
	}
	if !n.t.Failed() {
		_ = os.RemoveAll(dir)
	}
}

// Claim is part of Claims.
func (n *bench) Claim(context.Context, *v1.Pod, *v1.Volume) (*v1.PersistentVolumeClaim, *v1.PersistentVolume, error) {
	if n.pv == nil {
		return nil, nil, errors.New("PVC is not bound")
	}
	return &v1.PersistentVolumeClaim{}, n.pv, nil
}

// CSIDriver is part of CSIDrivers.
func (n *bench) CSIDriver(context.Context, string) (*storagev1.CSIDriverSpec, bool, error) {
	return n.spec, n.spec != nil, nil
}

// Secret is part of Secrets.
func (n *bench) Secret(_ context.Context, namespace, name string) (map[string]string, error) {
	if data, ok := n.secrets[namespace+"/"+name]; ok {
		return data, nil
	}
	return nil, fmt.Errorf("failed to find the secret %s in the namespace %s with error: secrets %q not found", name, namespace, name)
}

// token is a Tokens.
func token(_ context.Context, r TokenRequest) (authenticationv1.TokenRequestStatus, error) {
	return authenticationv1.TokenRequestStatus{
		Token: fmt.Sprintf("token of %s/%s/%s/%s for %q", r.Namespace, r.Pod, r.UID, r.ServiceAccount, r.Audience),
	}, nil
}

func persistentVolume() *v1.PersistentVolume {
	return &v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "pv-1"},
		Spec: v1.PersistentVolumeSpec{
			AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce, v1.ReadOnlyMany}, MountOptions: []string{"noatime"},
			PersistentVolumeSource: v1.PersistentVolumeSource{CSI: &v1.CSIPersistentVolumeSource{
				Driver: driverName, VolumeHandle: handle, FSType: "ext4", VolumeAttributes: map[string]string{"tier": "fast"},
			}},
		},
	}
}

// pod is a pod with a claim called data.
func pod() (*v1.Pod, *v1.Volume) {
	p := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "shop", UID: podUID},
		Spec: v1.PodSpec{ServiceAccountName: "seller", Volumes: []v1.Volume{{
			Name: "data", VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}},
		}}},
	}
	return p, &p.Spec.Volumes[0]
}

// inlinePod is a pod with an inline volume called scratch.
func inlinePod() (*v1.Pod, *v1.Volume) {
	p, spec := pod()
	spec.Name, spec.PersistentVolumeClaim = "scratch", nil
	spec.CSI = &v1.CSIVolumeSource{Driver: driverName, VolumeAttributes: map[string]string{"size": "1"}}
	return p, spec
}

func (n *bench) dir() string {
	return filepath.Join(n.kubelet, "pods", podUID, "volumes/kubernetes.io~csi/pv-1")
}
func (n *bench) mount() string { return filepath.Join(n.dir(), "mount") }

// staging is globalmount. The hash is sha256sum's, of the handle.
func (n *bench) staging() string {
	return filepath.Join(n.kubelet, "plugins/kubernetes.io/csi", driverName, handleHash, "globalmount")
}

// resolved resolves the pod's volume, and returns what package storage makes of it.
func (n *bench) resolved(p *v1.Pod, spec *v1.Volume) (storage.Volume, storage.Staging, storage.Publishing) {
	n.t.Helper()
	v, err := n.Resolve(n.t.Context(), p, spec)
	must(n.t, err)
	s := storage.Staging{Key: v.Key, Args: v.StageArgs}
	if v.Attaches {
		s.Context = map[string]string{"device": "/dev/x"}
	}
	return v, s, storage.Publishing{
		Staging: s, Staged: v.Stages, UID: p.UID, Plugin: v.Plugin, Name: v.Name, ReadOnly: v.ReadOnly, Args: v.PublishArgs,
		Dir: filepath.Join(n.kubelet, "pods", podUID, "volumes/kubernetes.io~csi", v.Name),
	}
}

// one returns the only request since the last call.
func (n *bench) one() proto.Message {
	n.t.Helper()
	all := n.driver.taken()
	if len(all) != 1 {
		n.t.Fatalf("%d calls: %v; want one", len(all), all)
	}
	return all[0]
}

// sent checks the only request since the last call.
func (n *bench) sent(want proto.Message) {
	n.t.Helper()
	if got := n.one(); !proto.Equal(got, want) {
		n.t.Errorf("the driver got %T\n%s\nwant %T\n%s", got, protojson.Format(got), want, protojson.Format(want))
	}
}

// isNotSent checks that no call was made, and that the error says so.
func (n *bench) isNotSent(err error) {
	n.t.Helper()
	if all := n.driver.taken(); len(all) > 0 || storage.OutcomeOf(err) != storage.NotSent {
		n.t.Errorf("%v (outcome %d) after %d calls; want that nothing is sent", err, storage.OutcomeOf(err), len(all))
	}
}

// texts returns requests in a form that can be compared.
func texts(all []proto.Message) []string {
	out := make([]string, len(all))
	for i, r := range all {
		out[i] = fmt.Sprintf("%T %s", r, protojson.MarshalOptions{}.Format(r))
	}
	return out
}
