package conformance

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/podstream/podstream/test/cluster/nodes"
	"github.com/podstream/podstream/test/devnode"
	"github.com/podstream/podstream/test/rig"
)

// programs are the tools that the tests need besides the control plane.
var programs = []string{"conformance.test", "ginkgo", "agnhost", "nonewprivs", "kubectl"}

// stopTime is how long ginkgo may take to remove its objects when it is stopped. Specs of CSI drivers wait for volumes. Without its report
// the results of a batch are lost.
const stopTime = 4 * time.Minute

// TestConformance runs the specs against a cluster of one node.
func TestConformance(t *testing.T) {
	needed := slices.Clone(programs)
	if *ofNode {
		needed = append(needed, "e2e_node.test")
	}
	if *ofStorage {
		needed = slices.AppendSeq(append(needed, "crictl"), maps.Values(sidecars))
	}
	for _, program := range needed {
		if _, err := os.Stat(filepath.Join(tools, program)); err != nil {
			t.Fatalf("%v; make test-conformance builds it", err)
		}
	}
	r := newRunner(t)
	ctx, stop := signal.NotifyContext(t.Context(), os.Interrupt, syscall.SIGTERM)
	t.Cleanup(stop)
	r.stopped = ctx
	r.startCluster(t)
	if *kept != "" {
		r.resume(t)
		return
	}
	r.run(t, "report.json", *focus, "--procs="+strconv.Itoa(r.specs.processes))
	r.show(t, "report.json")
}

// runner runs specs in one cluster.
type runner struct {
	// stopped ends with the test, or at Ctrl-C. Specs that run are then ended, and what was started is removed.
	stopped context.Context
	// dir has all output.
	dir string
	// failed is set when a spec has failed, so that the output is kept.
	failed bool
	// specs, node and site are set when the cluster runs.
	specs specs
	node  *nodes.Node
	site  site
}

// specs is a program of specs, and how it is run.
type specs struct {
	// program is its path, and args are its flags besides ginkgo's.
	program string
	args    []string
	// enter is a command that runs the command in its arguments, with this environment. Nil means none.
	enter, env []string
	// processes is the number of specs that run at a time.
	processes int
}

// newRunner returns a runner whose directory is a given one, or one that is removed if nothing fails.
func newRunner(t *testing.T) *runner {
	t.Helper()
	if *out != "" {
		rig.Must(t, os.MkdirAll(*out, 0o755))
		return &runner{dir: rig.Get(filepath.Abs(*out))(t)}
	}
	r := &runner{dir: rig.Get(os.MkdirTemp("", "conf"))(t)} // short, as it holds sockets
	t.Cleanup(func() {
		if t.Failed() || r.failed {
			t.Logf("ginkgo's output, its reports and the daemons' logs are in %s", r.dir)
			return
		}
		rig.Must(t, os.RemoveAll(r.dir))
	})
	return r
}

func (r *runner) path(name string) string { return filepath.Join(r.dir, name) }

// startCluster starts a cluster whose only node has the images of the specs.
func (r *runner) startCluster(t *testing.T) {
	t.Helper()
	config := nodes.Config{
		Dir: r.dir, Tools: tools, Runtime: rig.Get(devnode.ContainerdOf(*containerd))(t), Kubelet: *kubelet, Log: os.Stderr,
		ServesPods: *ofStorage,
	}
	machineName := "machine"
	if *ofStorage {
		machineName = "m" // the names of drivers' sockets are long
	}
	cluster := rig.Get(nodes.Start(r.stopped, config))(t)
	t.Cleanup(cluster.Close)
	machine := rig.Get(cluster.NewMachine(r.stopped, machineName))(t)
	t.Cleanup(func() { rig.Must(t, machine.Close()) })
	var more map[string]contents
	if *ofStorage {
		more = rig.Get(storageImages(cluster))(t)
	}
	node := cluster.NewNode(machine, "node")
	images := serveImages(t, machine, nsenter(machine.Endpoint(), node.Path("kubelet")), filepath.Join(cluster.BinDir(), "sample"), more)
	node.Port = 10250 // the specs use a fixed port
	if *ofNode {
		prepareNode(node)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(node.Tails())
		}
		rig.Must(t, node.Kill())
	})
	rig.Must(t, node.Launch())
	rig.Must(t, node.AwaitReady(r.stopped))
	r.node, r.site = node, lookAt(t, machine)
	if *ofNode {
		r.specs = r.nodeSpecs(t, cluster, node, images)
		return
	}
	r.specs = specs{
		program: filepath.Join(tools, "conformance.test"), processes: *processes,
		args: []string{"--kubeconfig=" + cluster.Kubeconfig, "--kubectl-path=" + filepath.Join(tools, "kubectl"), "--provider=skeleton", "--num-nodes=1",
			"--kubelet-root-dir=" + node.Path("kubelet")},
	}
}

// run runs the specs that match focus with ginkgo, with further flags. The report, a file in the directory, has the
// results.
func (r *runner) run(t *testing.T, report, focus string, flags ...string) {
	t.Helper()
	if err := os.Remove(r.path(report)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err) // it would be taken for this run's
	}
	log := rig.Get(os.OpenFile(r.path("ginkgo.log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644))(t)
	defer log.Close()

	args := append(slices.Clone(r.specs.enter), filepath.Join(tools, "ginkgo"))
	args = append(args, flags...)
	args = append(args, "--json-report="+r.path(report), "--no-color", "--focus="+focus, "--timeout=4h")
	if *except != "" {
		args = append(args, "--skip="+*except)
	}
	for _, u := range r.site.unfit() {
		args = append(args, "--skip="+u.pattern)
	}
	args = append(args, r.specs.program, "--")
	args = append(args, r.specs.args...)
	cmd := exec.CommandContext(r.stopped, args[0], args[1:]...)
	cmd.Env = append(os.Environ(), r.specs.env...)
	// Like Ctrl-C in a terminal, the signal goes to all processes, which then remove their objects from the
	// cluster.
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) }
	cmd.WaitDelay = stopTime
	cmd.Stdout = io.MultiWriter(log, os.Stdout)
	cmd.Stderr = cmd.Stdout
	// The process dies with the thread that starts it, so this test keeps its thread.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := cmd.Run()
	if err != nil && !errors.As(err, new(*exec.ExitError)) && r.stopped.Err() == nil { // the report has the failed specs
		t.Fatal(err)
	}
}
