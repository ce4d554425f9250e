package devnode

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// crashEnv makes the test binary start a node in the named directory, print a line, and wait to be killed. With
// crashNamespaceEnv the node has its own network namespace.
const (
	crashEnv          = "DEVNODE_TEST_CRASH_DIR"
	crashNamespaceEnv = "DEVNODE_TEST_CRASH_NAMESPACE"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(crashEnv); dir != "" {
		os.Exit(waitToBeKilled(dir))
	}
	goleak.VerifyTestMain(m)
}

// needContainerd skips a test if containerd can't run. Under `make test`, which installs it, the test fails.
func needContainerd(t *testing.T, config Config) {
	t.Helper()
	err := Check(config)
	switch {
	case err != nil && os.Getenv("PODSTREAM_REQUIRE_RUNTIME") != "":
		t.Fatal(err)
	case err != nil:
		t.Skipf("%v; then: sudo make test", err)
	}
}

func startContainerd(t *testing.T, dir string) *Node {
	t.Helper()
	return startNode(t, Config{Dir: dir})
}

func startNode(t *testing.T, config Config) *Node {
	t.Helper()
	config.Log = t.Output()
	needContainerd(t, config)
	node, err := Start(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := node.Close(); err != nil {
			t.Error(err)
		}
	})
	return node
}

// TestPodOverCRI starts and removes a pod, and closes the node while a second pod runs.
func TestPodOverCRI(t *testing.T) {
	node := startContainerd(t, t.TempDir())
	ctx := t.Context()
	cri, err := connect(ctx, node.Endpoint())
	if err != nil {
		t.Fatal(err)
	}
	defer cri.Close(context.Background())

	first, err := runPod(ctx, cri, node.Path("pods", "first"), "first")
	if err != nil {
		t.Fatal(err)
	}
	second, err := runPod(ctx, cri, node.Path("pods", "second"), "second")
	if err != nil {
		t.Fatal(err)
	}
	for _, pod := range []pod{first, second} {
		if err := pod.get(ctx, node); err != nil {
			t.Errorf("pod %s: %v", pod.ip, err)
		}
	}
	stdout, _, err := cri.ExecSync(ctx, first.container, []string{"/sample", "cat", "/proc/1/comm"}, 10*time.Second)
	if err != nil || string(stdout) != "sample\n" {
		t.Errorf("exec printed %q, %v", stdout, err)
	}

	if err := cri.StopContainer(ctx, first.container, 30); err != nil {
		t.Fatal(err)
	}
	status, err := cri.ContainerStatus(ctx, first.container, false)
	if err != nil {
		t.Fatal(err)
	}
	if code := status.GetStatus().GetExitCode(); code != 143 {
		t.Errorf("exit code %d after a stop, want 143", code)
	}
	if log, err := os.ReadFile(node.Path("pods", "first", "main.log")); err != nil || !strings.Contains(string(log), "host=first pid=1 ") {
		t.Errorf("log %q, %v", log, err)
	}
	if err := cri.StopPodSandbox(ctx, first.sandbox); err != nil {
		t.Error(err)
	}
	if err := cri.RemovePodSandbox(ctx, first.sandbox); err != nil {
		t.Error(err)
	}

	socket, err := node.shimSocket(second.sandbox)
	if _, statErr := os.Stat(socket); err != nil || statErr != nil {
		t.Fatalf("socket of a shim: %q, %v, %v", socket, err, statErr)
	}
	if err := node.Close(); err != nil {
		t.Fatal(err)
	}
	if found := traces(t, node.Dir(), first, second); len(found) > 0 {
		t.Errorf("left after Close:\n%s", strings.Join(found, "\n"))
	}
	if _, err := os.Stat(socket); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("left after Close: %s, %v", socket, err)
	}
	entries, err := os.ReadDir(node.Dir())
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if entry.Name() != logDir && entry.Name() != lockFile {
			t.Errorf("left in the directory: %s", entry.Name())
		}
	}
}

// TestRuntimeRestart kills containerd, starts it again, and checks that the pod still runs.
func TestRuntimeRestart(t *testing.T) {
	// The path is so long that the sockets must be in another directory.
	node := startContainerd(t, filepath.Join(t.TempDir(), strings.Repeat("long", 30)))
	ctx := t.Context()
	cri, err := connect(ctx, node.Endpoint())
	if err != nil {
		t.Fatal(err)
	}
	defer cri.Close(context.Background())
	pod, err := runPod(ctx, cri, node.Path("pods"), "survivor")
	if err != nil {
		t.Fatal(err)
	}
	old := node.Runtime().Pid()
	if err := node.Runtime().Kill(); err != nil {
		t.Fatal(err)
	}
	if err := node.Runtime().Start(); err != nil {
		t.Fatal(err)
	}
	if err := node.WaitReady(ctx); err != nil {
		t.Fatal(err)
	}
	if node.Runtime().Pid() == old {
		t.Errorf("containerd has the process id %d as before", old)
	}
	if err := pod.get(ctx, node); err != nil {
		t.Error(err)
	}
	status, err := cri.ContainerStatus(ctx, pod.container, false)
	if err != nil {
		t.Fatal(err)
	}
	if state := status.GetStatus().GetState(); state != runtimeapi.ContainerState_CONTAINER_RUNNING {
		t.Errorf("container is %v", state)
	}
	sockets := filepath.Dir(strings.TrimPrefix(node.Endpoint(), "unix://"))
	if err := node.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(sockets); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the directory of the sockets still exists: %v", err)
	}
}

// TestStartAfterCrash kills a process that runs a node with a pod, and starts a node in the same directory.
func TestStartAfterCrash(t *testing.T) {
	t.Run("network of the machine", func(t *testing.T) { testStartAfterCrash(t, false) })
	t.Run("network of its own", func(t *testing.T) { testStartAfterCrash(t, true) })
}

func testStartAfterCrash(t *testing.T, namespace bool) {
	needContainerd(t, Config{NetworkNamespace: namespace})
	dir := t.TempDir()
	child := exec.Command("/proc/self/exe")
	child.Env = append(os.Environ(), crashEnv+"="+dir)
	if namespace {
		child.Env = append(child.Env, crashNamespaceEnv+"=1")
	}
	child.Stderr = os.Stderr
	output, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	var crashed pod
	var network string
	_, scanErr := fmt.Fscanln(output, &crashed.sandbox, &crashed.container, &crashed.ip, &network)
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait() // it was killed
	if scanErr != nil {
		t.Fatal(scanErr)
	}
	if len(traces(t, dir)) == 0 {
		t.Fatal("the killed node left no objects; want some to clear")
	}

	node := startContainerd(t, dir)
	if namespace {
		awaitNamespaceGone(t, network)
	}
	cri, err := connect(t.Context(), node.Endpoint())
	if err != nil {
		t.Fatal(err)
	}
	defer cri.Close(context.Background())
	if sandboxes, err := cri.ListPodSandbox(t.Context(), nil); err != nil || len(sandboxes) > 0 {
		t.Errorf("sandboxes in the new node: %v, %v", sandboxes, err)
	}
	if err := node.Close(); err != nil {
		t.Fatal(err)
	}
	if found := traces(t, dir, crashed); len(found) > 0 {
		t.Errorf("left:\n%s", strings.Join(found, "\n"))
	}
}

func waitToBeKilled(dir string) int {
	ctx := context.Background()
	node, err := Start(ctx, Config{Dir: dir, NetworkNamespace: os.Getenv(crashNamespaceEnv) != "", Log: os.Stderr})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	cri, err := connect(ctx, node.Endpoint())
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	pod, err := runPod(ctx, cri, node.Path("pods"), "crashed")
	if err == nil {
		err = pod.get(ctx, node)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	network, err := node.networkID()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println(pod.sandbox, pod.container, pod.ip, network)
	select {} // until SIGKILL
}
