package nfs

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/execsvc/setup/foreign"
	"github.com/podstream/podstream/internal/execsvc/setup/foreign/fusetest"
	"github.com/podstream/podstream/internal/execsvc/setup/storage"
	"github.com/podstream/podstream/internal/execsvc/setup/storage/record"
	podvolume "github.com/podstream/podstream/internal/execsvc/setup/volume"
	"github.com/podstream/podstream/internal/kubeletdir"
)

// inline resolves a pod's own shares.
type inline struct{}

// Resolve is part of storage.Claims.
func (inline) Resolve(_ context.Context, pod *v1.Pod, spec *v1.Volume) (storage.Volume, error) {
	return Inline(pod, spec)
}

// TestPodEndsDuringMount: a pod that is deleted while the process of its mount can't be ended isn't gone, and its volume's directory stays,
// until that process has ended; also if podexecd is restarted meanwhile. Its name is in the error. Nothing is mounted twice.
func TestPodEndsDuringMount(t *testing.T) {
	server, dir := fusetest.Hang(t, t.TempDir()), t.TempDir()
	log := filepath.Join(dir, "log")
	newBench(t, "echo begun >> "+log+"; ls "+server.Dir+"/x\n") // It sets PATH.
	p, pods := pod(), filepath.Join(dir, "pods")
	p.Spec.Volumes = []v1.Volume{{Name: "data", VolumeSource: v1.VolumeSource{NFS: &v1.NFSVolumeSource{Server: "server", Path: "/share"}}}}
	p.Spec.Containers = []v1.Container{{Name: "c", VolumeMounts: []v1.VolumeMount{{Name: "data", MountPath: "/data"}}}}
	start := func() (m *podvolume.Manager, stop func()) {
		records, err := record.Open(filepath.Join(dir, "records"), "agent")
		must(t, err)
		helpers := foreign.New(foreign.Config{Grace: 50 * time.Millisecond, Dir: filepath.Join(dir, "notes"), Boot: "boot"})
		s := storage.New(storage.Config{
			Records: records, Agent: "agent", Boot: "boot", Backends: map[string]storage.Backend{BackendName: New(helpers)}, Claims: inline{},
			Takes: func(v *v1.Volume) bool { return v.NFS != nil },
		})
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			s.Run(ctx)
		}()
		<-s.Reconstructed()
		return podvolume.New(podvolume.Config{PodDirs: kubeletdir.Pods{Current: pods}, Plugins: []podvolume.Plugin{s}, Helpers: helpers}), func() {
			cancel()
			<-ended
			helpers.Close()
		}
	}
	m, stop := start()
	failed := make(chan error, 1)
	go func() { failed <- m.SetUp(t.Context(), podvolume.Request{Pod: p}) }()
	<-server.Asked()
	at := filepath.Join(pods, "u1", "volumes", "kubernetes.io~nfs", "data")
	for _, restarts := range []bool{false, true} {
		if restarts {
			stop()
			m, stop = start()
		}
		for err := error(nil); err == nil || !strings.Contains(err.Error(), at); {
			if err = m.TearDown(t.Context(), "u1"); err == nil {
				t.Fatal("the volume is torn down while it may still be mounted")
			}
			if _, err := os.Stat(at); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := <-failed; err == nil {
		t.Error("the volume is set up")
	}
	server.Die()
	for m.TearDown(t.Context(), "u1") != nil {
	}
	stop()
	if _, err := os.Stat(at); !os.IsNotExist(err) {
		t.Errorf("the volume's directory is left: %v", err)
	}
	if begun, err := os.ReadFile(log); string(begun) != "begun\n" {
		t.Errorf("mounts %q, %v; want one", begun, err)
	}
}
