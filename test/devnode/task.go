package devnode

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
)

// CreateTask creates containerd's task of a container that CRI has created: the process "runc init", which waits for
// the start. containerd leaves such a task if a StartContainer is interrupted just after the task's creation.
func (n *Node) CreateTask(ctx context.Context, id string) error {
	ctr, err := findTool(n.config, "ctr")
	if err != nil {
		return fmt.Errorf("create task: %w", err)
	}
	// ctr writes this file between the task's creation and its start, and gives up if that fails.
	nowhere := n.Path("no-such-directory", "pid")
	output, err := exec.CommandContext(ctx, ctr, "--address", n.containerdSocket(), "--namespace", criNamespace,
		"tasks", "start", "--detach", "--null-io", "--pid-file", nowhere, id).CombinedOutput()
	if err == nil || !strings.Contains(string(output), "no-such-directory") {
		return fmt.Errorf("create task of container %s: ctr ended otherwise than by its PID file: %w\n%s", id, err, output)
	}
	return nil
}
