package podexecd

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/podstream/podstream/internal/execsvc/setup/storage/record"
	"github.com/podstream/podstream/internal/kubeletdir"
)

// TestKubeletVolumes: podexecd adopts no pod whose volumes a kubelet set up; those of its own records are its own.
func TestKubeletVolumes(t *testing.T) {
	dir := t.TempDir()
	records, err := record.Open(filepath.Join(dir, "records"), "me")
	if err != nil {
		t.Fatal(err)
	}
	volume := record.Volume{
		Boot: "boot", Key: record.Key{Driver: "d.example.com", Handle: "v"}, Traits: record.Traits{Backend: "csi"},
		Publications: []record.Publication{{
			Target: record.Target{UID: "mine", Plugin: "kubernetes.io/csi", Name: "pv"}, Call: record.Call{Phase: record.Done},
			Dir: filepath.Join(kubeletdir.PodsDir(dir), "mine/volumes/kubernetes.io~csi/pv"), Volumes: []string{"data"},
		}},
	}
	if err := records.Write(&volume); err != nil {
		t.Fatal(err)
	}
	mkdir := func(uid string) {
		if err := os.MkdirAll(filepath.Join(kubeletdir.PodsDir(dir), uid, "volumes/kubernetes.io~csi/pv"), 0o750); err != nil {
			t.Fatal(err)
		}
	}
	mkdir("mine")
	if err := checkKubeletVolumes(dir, records); err != nil {
		t.Error(err)
	}
	// A record of another agent doesn't hide it.
	other, err := record.Open(filepath.Join(dir, "records"), "other")
	if err != nil {
		t.Fatal(err)
	}
	foreign := volume
	foreign.Key.Handle, foreign.Publications = "w", nil
	if err := other.Write(&foreign); err != nil {
		t.Fatal(err)
	}
	mkdir("kubelets")
	if err := checkKubeletVolumes(dir, records); err == nil {
		t.Error("the volume of a kubelet isn't found")
	}
}
