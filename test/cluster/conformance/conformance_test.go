package conformance

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
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

// TestConformance runs the specs against a cluster of one node.
func TestConformance(t *testing.T) {
	for _, program := range programs {
		if _, err := os.Stat(filepath.Join(tools, program)); err != nil {
			t.Fatalf("%v; make test-conformance builds it", err)
		}
	}
	dir := outDir(t)
	if *kept != "" {
		resume(t, dir)
		return
	}
	cluster, _ := startCluster(t, dir)
	report := filepath.Join(dir, "report.json")
	runSpecs(t, dir, cluster.Kubeconfig, *focus, "--json-report="+report)
	show(t, report)
}

// outDir returns the directory of all output: a given one, or one that is removed if nothing fails.
func outDir(t *testing.T) string {
	t.Helper()
	if *out != "" {
		rig.Must(t, os.MkdirAll(*out, 0o755))
		return rig.Get(filepath.Abs(*out))(t)
	}
	dir := rig.Get(os.MkdirTemp("", "conf"))(t) // short, as it holds sockets
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("ginkgo's output, its report and the daemons' logs are in %s", dir)
			return
		}
		rig.Must(t, os.RemoveAll(dir))
	})
	return dir
}

// startCluster starts a cluster whose only node has the images of the specs, and returns the node's machine too.
func startCluster(t *testing.T, dir string) (*nodes.Cluster, *devnode.Node) {
	t.Helper()
	config := nodes.Config{
		Dir: dir, Tools: tools, Runtime: rig.Get(devnode.ContainerdOf(*containerd))(t), Kubelet: *kubelet, Log: os.Stderr,
	}
	cluster := rig.Get(nodes.Start(t.Context(), config))(t)
	t.Cleanup(cluster.Close)
	machine := rig.Get(cluster.NewMachine(t.Context(), "machine"))(t)
	t.Cleanup(func() { rig.Must(t, machine.Close()) })
	serveImages(t, machine, filepath.Join(cluster.BinDir(), "sample"))
	node := cluster.NewNode(machine, "node")
	node.Port = 10250 // the specs use a fixed port
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(node.Tails())
		}
		rig.Must(t, node.Kill())
	})
	rig.Must(t, node.Launch())
	rig.Must(t, node.AwaitReady(t.Context()))
	return cluster, machine
}

// runSpecs runs the specs that match focus with ginkgo. The flags make it write a report, which has the results.
func runSpecs(t *testing.T, dir, kubeconfig, focus string, flags ...string) {
	t.Helper()
	log := rig.Get(os.OpenFile(filepath.Join(dir, "ginkgo.log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644))(t)
	defer log.Close()

	args := append(flags, "--no-color", "--procs="+strconv.Itoa(*processes), "--focus="+focus, "--timeout=4h")
	if *except != "" {
		args = append(args, "--skip="+*except)
	}
	for _, u := range unfit {
		args = append(args, "--skip="+u.pattern)
	}
	args = append(args, filepath.Join(tools, "conformance.test"), "--",
		"--kubeconfig="+kubeconfig, "--kubectl-path="+filepath.Join(tools, "kubectl"), "--provider=skeleton", "--num-nodes=1")
	cmd := exec.CommandContext(t.Context(), filepath.Join(tools, "ginkgo"), args...)
	// Like Ctrl-C in a terminal, the signal goes to all processes, which then remove their objects from the
	// cluster.
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) }
	cmd.WaitDelay = time.Minute
	cmd.Stdout = io.MultiWriter(log, os.Stdout)
	cmd.Stderr = cmd.Stdout
	// The process dies with the thread that starts it, so this test keeps its thread.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := cmd.Run(); err != nil && !errors.As(err, new(*exec.ExitError)) { // the report has the failed specs
		t.Fatal(err)
	}
}
