package conformance

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/podstream/podstream/test/rig"
)

// shortFocus matches what a run without flags does: no spec of it needs a CSI driver.
const shortFocus = `\[NodeConformance\]|\[sig-storage\] (.*\[Conformance\]|PersistentVolumes-local \[LocalVolumeType: (dir|tmpfs)\])`

var (
	focus  = flag.String("focus", shortFocus, "`regexp` of the specs to run, of their whole names")
	except = flag.String("except", `\[Slow\]|\[Disruptive\]|\[Feature:OffByDefault\]`, "`regexp` of the specs among them to leave out")
	// More processes than processors: the specs mostly wait.
	processes  = flag.Int("processes", 4, "`number` of specs that run at a time")
	out        = flag.String("out", "", "`directory` for ginkgo's output, its report and the daemons' logs; default: one that is kept after a failure")
	containerd = flag.String("containerd", "2", "the `version` of containerd, 1.7 or 2")
	kubelet    = flag.String("kubelet", "", "`program` of a kubelet, which is then the node in place of podconfigd and podexecd")
	ofNode     = flag.Bool("node", false, "runs specs of test/e2e_node, one at a time, instead of those of test/e2e")
	ofStorage  = flag.Bool("storage", false, "has what specs of CSI drivers need: their sidecars, which reach the API server")
	kept       = flag.String("results", "", "`directory` of the results of all runs; this run does what they lack, and default: none are kept")
	label      = flag.String("label", "", "`commit` or version of the agent, with -results")
	version    = flag.String("specs", "", "`version` of Kubernetes that the specs are of, with -results")
	batch      = flag.Int("batch", 60, "`number` of specs that a run loses at most when it is killed, with -results")
)

// tools is the directory of the programs that make provides.
var tools string

func TestMain(m *testing.M) { os.Exit(rig.Main(m, start, nil)) }

// start changes to the module's root: that is where the daemons are built, and where devnode looks for containerd.
func start() error {
	root, err := filepath.Abs(filepath.Join("..", "..", ".."))
	if err != nil {
		return err
	}
	tools = filepath.Join(root, ".tools")
	return os.Chdir(root)
}
