package resolver

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/execsvc/setup/foreign"
	"github.com/podstream/podstream/internal/execsvc/setup/storage"
	"github.com/podstream/podstream/internal/execsvc/setup/storage/local"
	"github.com/podstream/podstream/internal/execsvc/setup/storage/record"
	"github.com/podstream/podstream/internal/execsvc/setup/volume"
	"github.com/podstream/podstream/internal/kubeletdir"
	"github.com/podstream/podstream/internal/roottest"
)

func TestMain(m *testing.M) {
	foreign.Main()
	goleak.VerifyTestMain(m)
}

// TestOncePodMounts: two pods share a mounted directory only until its PersistentVolume is ReadWriteOncePod. Then the second one has no mount
// while the first one has, also after a restart.
func TestOncePodMounts(t *testing.T) {
	roottest.Need(t, "mounting")
	dir := t.TempDir()
	source := filepath.Join(dir, "source")
	for _, d := range []string{source, kubeletdir.Plugins(dir), kubeletdir.PodsDir(dir)} {
		if err := os.MkdirAll(d, 0o750); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(source, "canary"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	f := &fake{pv: &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"}}}
	f.pv.Spec.Local = &v1.LocalVolumeSource{Path: source}
	f.pv.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}
	start := func() (m *volume.Manager, stop func()) {
		records, err := record.Open(filepath.Join(dir, "records"), "agent")
		if err != nil {
			t.Fatal(err)
		}
		helpers := foreign.New(foreign.Config{Limit: time.Minute})
		backend := local.New(helpers)
		s := storage.New(storage.Config{
			Records: records, Agent: "agent", Boot: "boot", Backends: map[string]storage.Backend{local.BackendName: backend},
			Claims: New(Config{KubeletDir: dir, CSI: f, Claims: f}),
		})
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			s.Run(ctx)
		}()
		<-s.Reconstructed()
		return volume.New(volume.Config{PodDirs: kubeletdir.Pods{Current: kubeletdir.PodsDir(dir)}, Plugins: []volume.Plugin{s}, Helpers: helpers}), func() {
			cancel()
			<-ended
			backend.Close()
			helpers.Close()
		}
	}
	podOf := func(uid types.UID) *v1.Pod {
		p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: string(uid), UID: uid}}
		p.Spec.Volumes = []v1.Volume{{Name: "data", VolumeSource: v1.VolumeSource{
			PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "c"},
		}}}
		p.Spec.Containers = []v1.Container{{Name: "c", VolumeMounts: []v1.VolumeMount{{Name: "data", MountPath: "/data"}}}}
		return p
	}
	m, stop := start()
	setUp := func(uid types.UID, want string) {
		t.Helper()
		err := m.SetUp(t.Context(), volume.Request{Pod: podOf(uid)})
		if err == nil && want != "" || err != nil && (want == "" || !strings.Contains(err.Error(), want)) {
			t.Errorf("the error of %s is %v; want %q", uid, err, want)
		}
		_, err = os.Stat(filepath.Join(kubeletdir.PodsDir(dir), string(uid), "volumes", "kubernetes.io~local-volume", "pv", "canary"))
		if (err == nil) != (want == "") {
			t.Errorf("the file of the volume of %s: %v", uid, err)
		}
	}
	tearDown := func(uid types.UID) {
		t.Helper()
		if err := m.TearDown(t.Context(), uid); err != nil {
			t.Error(err)
		}
	}
	setUp("first", "")
	setUp("second", "")
	tearDown("second")
	f.pv.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteOncePod}
	const refused = "volume uses the ReadWriteOncePod access mode and is already in use by another pod: shop/first"
	setUp("second", refused)
	stop()
	m, stop = start()
	defer func() { stop() }()
	setUp("second", refused)
	setUp("first", "")
	tearDown("first")
	setUp("second", "")
	tearDown("second")
}
