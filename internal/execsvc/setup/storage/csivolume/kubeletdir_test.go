package csivolume

import (
	"os"
	"path/filepath"
	"testing"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/podstream/podstream/internal/kubeletdir"
	"github.com/podstream/podstream/internal/roottest"
)

// TestOtherKubeletDir: after a restart with another --kubelet-dir, a volume that is staged is published, and expanded, from where it is
// staged. An empty directory of the node's disk would be published otherwise.
func TestOtherKubeletDir(t *testing.T) {
	roottest.Need(t, "mount")
	n := newBench(t, csipb.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME, csipb.NodeServiceCapability_RPC_EXPAND_VOLUME)
	p, spec := pod()
	_, staging, publishing := n.resolved(p, spec)
	must(t, n.Stage(t.Context(), staging))
	// The next pod has its directories in the other one.
	n.cfg.KubeletDir = t.TempDir()
	must(t, os.MkdirAll(kubeletdir.PodsDir(n.cfg.KubeletDir), 0o750), os.MkdirAll(kubeletdir.Plugins(n.cfg.KubeletDir), 0o750))
	n.restart()
	_, _, later := n.resolved(p, spec)
	later.Staging, later.Dir = publishing.Staging, filepath.Join(n.cfg.KubeletDir, "pods", podUID, "volumes/kubernetes.io~csi/pv-1")
	n.driver.taken()
	n.driver.fails(nil)
	_ = n.Publish(t.Context(), later) // The driver makes nothing, which is an error.
	if got := n.one().(*csipb.NodePublishVolumeRequest).GetStagingTargetPath(); got != n.staging() {
		t.Errorf("the driver is told that the volume is staged at %s, want %s", got, n.staging())
	}
	_ = n.Expand(t.Context(), later, ExpandArgs(1))
	if got := n.one().(*csipb.NodeExpandVolumeRequest).GetStagingTargetPath(); got != n.staging() {
		t.Errorf("it is expanded at %s, want %s", got, n.staging())
	}
}
