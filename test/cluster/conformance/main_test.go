package conformance

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"
)

var (
	focus  = flag.String("focus", `\[NodeConformance\]`, "`regexp` of the specs to run, of their whole names")
	except = flag.String("except", `\[Slow\]|\[Disruptive\]|\[Feature:OffByDefault\]`, "`regexp` of the specs among them to leave out")
	// More processes than processors: the specs mostly wait.
	processes  = flag.Int("processes", 4, "`number` of specs that run at a time")
	out        = flag.String("out", "", "`directory` for ginkgo's output, its report and the daemons' logs; default: one that is kept after a failure")
	containerd = flag.String("containerd", "", "the `version` of containerd: 1.7 for the one in .tools; default: the one in PATH")
	kubelet    = flag.String("kubelet", "", "`program` of a kubelet, which is then the node in place of podconfigd and podexecd")
)

// tools is the directory of the programs that make provides.
var tools string

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(run(m))
}

// run runs the tests in the module's root: that is where the daemons are built, and where devnode looks for containerd.
func run(m *testing.M) int {
	root, err := filepath.Abs(filepath.Join("..", "..", ".."))
	if err == nil {
		tools = filepath.Join(root, ".tools")
		err = os.Chdir(root)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "conformance:", err)
		return 1
	}
	code := m.Run()
	if err := goleak.Find(); err != nil {
		fmt.Fprintln(os.Stderr, "conformance:", err)
		code = 1
	}
	return code
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// get returns the value of a call, and ends the test if there is an error.
func get[T any](value T, err error) func(t *testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		must(t, err)
		return value
	}
}
