package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstream/podstream/test/devnode"
	"github.com/podstream/podstream/test/rig"
)

// The backoffs of all benches are short. The backoff of containers is longer than the time until podexecd detects the
// end of a container without events, so that a test can observe the delay.
var (
	restartBase       = patience / 20
	restartMax        = 2 * restartBase
	pullBase, pullMax = time.Second, 2 * time.Second
)

// bench is a pair of daemons, and a journal of podexecd's streams.
type bench struct {
	*rig.Rig
	*journal
	runtime devnode.Runtime

	stop func()
	pods atomic.Int32
}

var made atomic.Int32

// newBench starts a pair of daemons; flags are podexecd's.
func newBench(node *devnode.Node, kind devnode.Runtime, flags ...string) (*bench, error) {
	name := fmt.Sprintf("n%d", made.Add(1))
	r, err := rig.Start(node, name, append([]string{
		"--crash-loop-backoff-base", restartBase.String(), "--crash-loop-backoff-max", restartMax.String(),
		"--image-pull-backoff-base", pullBase.String(), "--image-pull-backoff-max", pullMax.String(),
		"--serialize-image-pulls=false", "--registry-qps=0", "--pods-api-socket", node.Socket(name + "p"),
	}, flags...)...)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	b := &bench{Rig: r, journal: newJournal("-" + r.Name), runtime: kind}
	done := b.follow(ctx, r.Exec)
	b.stop = func() { cancel(); done() }
	return b, nil
}

// restartPodexecd stops podexecd with the function end, and starts it again.
func (b *bench) restartPodexecd(t *testing.T, end func(*devnode.Process) error) {
	t.Helper()
	check(t, end(b.Podexecd))
	check(t, b.Podexecd.Start())
	check(t, devnode.WaitServing(t.Context(), b.Podexecd, "unix://"+b.ExecSocket()))
}

// kill ends a container with SIGKILL, directly in the runtime.
func (b *bench) kill(t *testing.T, container *v1.ContainerStatus) {
	t.Helper()
	_, id, _ := strings.Cut(container.ContainerID, "://")
	_, err := b.CRI.StopContainer(t.Context(), &runtimeapi.StopContainerRequest{ContainerId: id})
	check(t, err)
}

// clear removes the remaining pods and waits until nothing of them is left.
func (b *bench) clear() error {
	err := b.Clear()
	if left := poll(func() error { return b.Empty(context.Background()) }); left != nil {
		left = fmt.Errorf("pods of %s aren't removed completely: %w\npodexecd's log ends with:\n%s", b.Name, left, b.Podexecd.LogTail())
		err = errors.Join(err, left)
	}
	return err
}

func (b *bench) close() error {
	b.stop()
	return b.Close()
}

// podctl runs podctl against the bench's daemons, and returns its two outputs and its exit code.
func (b *bench) podctl(ctx context.Context, args ...string) (stdout string, stderr string, code int) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(nodes.BinDir, "podctl"), append([]string{
		"--podconfig-endpoint", "unix://" + b.ConfigSocket(), "--podexec-endpoint", "unix://" + b.ExecSocket()}, args...)...)
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return string(out), string(exit.Stderr), exit.ExitCode()
	}
	if err != nil {
		return string(out), err.Error(), -1
	}
	return string(out), "", 0
}
