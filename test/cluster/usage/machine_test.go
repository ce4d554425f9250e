package usage

import (
	"testing"

	"github.com/podstream/podstream/test/devnode"
	"github.com/podstream/podstream/test/rig"
)

// newMachine starts a separate containerd for the test, for daemons of that directory. It ends with the test.
func newMachine(t *testing.T, name, binaries string) *devnode.Node {
	t.Helper()
	if *kubelet != "" {
		t.Skip("this test needs podexecd, so it needs a run without -kubelet: make test-cluster")
	}
	m := rig.Get(devnode.Start(t.Context(), devnode.Config{Dir: here.dir + "/" + name, Runtime: here.runtime, BinDir: binaries, Log: t.Output()}))(t)
	t.Cleanup(func() { rig.Must(t, m.Close()) })
	rig.Must(t, importImages(t.Context(), m, here.BinDir()+"/sample"))
	return m
}
