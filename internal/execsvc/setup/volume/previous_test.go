package volume

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/mount-utils"

	"github.com/podstream/podstream/internal/kubeletdir"
)

// TestPodsOfAnEarlierVersion: a pod of an earlier version has its volumes in its old place, also new ones, until its end; then it has
// the new place, as other pods have. All are listed, and nothing of either place is left.
func TestPodsOfAnEarlierVersion(t *testing.T) {
	base := t.TempDir()
	before, after := filepath.Join(base, "root/pods"), filepath.Join(base, "kubelet/pods")
	old, fresh := podWith("old", emptyDirVolume("a", v1.EmptyDirVolumeSource{})), podWith("new", emptyDirVolume("a", v1.EmptyDirVolumeSource{}))
	setUp(t, New(Config{PodDirs: kubeletdir.Pods{Current: before}, Mounter: mount.NewFakeMounter(nil)}), old)

	m := New(Config{PodDirs: kubeletdir.Pods{Current: after, Previous: before}, Mounter: mount.NewFakeMounter(nil)})
	setUp(t, m, old)
	setUp(t, m, fresh)
	for pod, want := range map[*v1.Pod]string{old: before + "/old", fresh: after + "/new"} {
		if got := dirOf(t, m, pod, "a"); got != want+"/volumes/kubernetes.io~empty-dir/a" {
			t.Errorf("pod %s has its volume in %s; want it in %s", pod.UID, got, want)
		}
		there(t, dirOf(t, m, pod, "a"))
	}
	gone(t, after+"/old")
	// A node that went back to the earlier version may have both.
	put(t, after+"/old/etc-hosts")
	uids, err := m.PodsOnDisk()
	if slices.Sort(uids); err != nil || !slices.Equal(uids, []types.UID{"new", "old"}) {
		t.Errorf("the pods on disk are %q, %v", uids, err)
	}
	if err := m.TearDown(t.Context(), "old"); err != nil {
		t.Fatal(err)
	}
	gone(t, before+"/old")
	gone(t, after+"/old")
	there(t, after+"/new")
	setUp(t, m, old)
	there(t, after+"/old/volumes/kubernetes.io~empty-dir/a")
	gone(t, before+"/old")
}

// TestEarlierPlaceStaysMounted: what can't be unmounted in the old place keeps the pod's directory there, and an error.
func TestEarlierPlaceStaysMounted(t *testing.T) {
	base := t.TempDir()
	before := filepath.Join(base, "root/pods")
	put(t, before+"/old/volumes/kubernetes.io~empty-dir/a/precious")
	mounted := mount.NewFakeMounter([]mount.MountPoint{{Device: "d", Path: before + "/old/volumes/kubernetes.io~empty-dir/a"}})
	m := New(Config{PodDirs: kubeletdir.Pods{Current: filepath.Join(base, "kubelet/pods"), Previous: before}, Mounter: stubborn{Interface: mounted}})
	if err := m.TearDown(t.Context(), "old"); !errors.Is(err, ErrMounted) {
		t.Errorf("error %v, want ErrMounted", err)
	}
	there(t, before+"/old/volumes/kubernetes.io~empty-dir/a/precious")
}

// put writes a file, with its directories.
func put(t *testing.T, path string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), dirMode); err != nil {
		t.Fatal(err)
	}
	write(t, path, "x")
}
