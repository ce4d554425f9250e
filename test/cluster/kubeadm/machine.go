package kubeadm

import (
	"bufio"
	"bytes"
	"context"
	"embed"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// stepTimeout bounds each command on a node, on a slow machine.
const stepTimeout = 10 * time.Minute

//go:embed testdata
var scripts embed.FS

// machine is a node: its namespaces, and its directory on this machine.
type machine struct {
	name, dir string
	// pid is its first process.
	pid   int
	outer *exec.Cmd
	input io.Closer
}

// newMachine makes the namespaces of a node. They end with close, or with this process.
func newMachine(ctx context.Context, name, dir, tools string) (*machine, error) {
	script, err := scripts.ReadFile("testdata/node.sh")
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	cmd := exec.Command("unshare", "--mount", "--uts", "--ipc", "--net", "--pid", "--fork", "--kill-child", "--mount-proc",
		"bash", "-c", string(script), "node", dir, name, tools)
	input, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	output, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C ends the test first, which closes the input.
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	m := &machine{name: name, dir: dir, outer: cmd, input: input}
	if line, err := bufio.NewReader(output).ReadString('\n'); err != nil || line != "ready\n" {
		_ = m.close()
		return nil, fmt.Errorf("node %s: %q %w\n%s", name, line, err, stderr.String())
	}
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", cmd.Process.Pid, cmd.Process.Pid))
	if err == nil {
		m.pid, err = strconv.Atoi(strings.TrimSpace(string(children)))
	}
	if err != nil {
		_ = m.close()
		return nil, fmt.Errorf("node %s: its first process: %w", name, err)
	}
	return m, ctx.Err()
}

// close ends all processes of the node, and removes its files.
func (m *machine) close() error {
	_ = m.input.Close()
	_ = m.outer.Wait()
	return os.RemoveAll(m.dir)
}

// command returns a command on the node.
func (m *machine) command(ctx context.Context, args ...string) *exec.Cmd {
	enter := []string{"--target", strconv.Itoa(m.pid), "--mount", "--uts", "--ipc", "--net", "--pid", "--"}
	// nsenter alone would be killed at the end of ctx, and not the program that it has started.
	enter = append(enter, "timeout", "--kill-after=10", strconv.Itoa(int(stepTimeout.Seconds())))
	cmd := exec.CommandContext(ctx, "nsenter", append(enter, args...)...)
	cmd.WaitDelay = 10 * time.Second
	cmd.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "KUBECONFIG=/etc/kubernetes/admin.conf"}
	return cmd
}

// run runs a command on the node, and returns its output. The error has the output of both streams.
func (m *machine) run(ctx context.Context, args ...string) (string, error) {
	stdout, _, err := m.runBoth(ctx, args...)
	return stdout, err
}

// runBoth is run, and returns the output of both streams together, too.
func (m *machine) runBoth(ctx context.Context, args ...string) (out, both string, err error) {
	cmd := m.command(ctx, args...)
	var stdout bytes.Buffer
	var all lockedBuffer
	cmd.Stdout, cmd.Stderr = io.MultiWriter(&stdout, &all), &all
	if err = cmd.Run(); err != nil {
		err = fmt.Errorf("%s: %s: %w\n%s", m.name, strings.Join(args, " "), err, tail(all.String(), 12<<10))
	}
	return stdout.String(), all.String(), err
}

// lockedBuffer is a buffer to which the goroutines of both streams write.
type lockedBuffer struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.Write(p)
}

// String returns the content, once the program has ended.
func (b *lockedBuffer) String() string { return b.buffer.String() }

// write writes a file of the node.
func (m *machine) write(ctx context.Context, path, content string, mode os.FileMode) error {
	cmd := m.command(ctx, "install", "-D", "-m", fmt.Sprintf("%04o", mode), "/dev/stdin", path)
	cmd.Stdin = strings.NewReader(content)
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: write %s: %w: %s", m.name, path, err, output)
	}
	return nil
}

// read returns the end of a file of the node.
func (m *machine) read(ctx context.Context, path string, size int) string {
	content, err := m.command(ctx, "tail", "-c", strconv.Itoa(size), path).CombinedOutput()
	if err != nil {
		return err.Error()
	}
	return string(content)
}

// install installs the agent's programs, the stand-in for systemd, and containerd with the network of the node's pods.
func (m *machine) install(ctx context.Context, agent map[string]string, pause, podRange string) error {
	for _, name := range []string{"systemctl", "kubelet-unit"} {
		content, err := scripts.ReadFile("testdata/" + name)
		if err != nil {
			return err
		}
		path := "/usr/local/bin/" + name
		if name == "systemctl" {
			path = "/usr/bin/" + name
		}
		if err := m.write(ctx, path, string(content), 0o755); err != nil {
			return err
		}
	}
	for name, path := range agent {
		if _, err := m.run(ctx, "install", "-m", "0755", path, "/usr/bin/"+name); err != nil {
			return err
		}
	}
	config, err := scripts.ReadFile("testdata/containerd.toml")
	if err != nil {
		return err
	}
	if err := m.write(ctx, "/etc/containerd/config.toml", strings.Replace(string(config), "PAUSE", pause, 1), 0o644); err != nil {
		return err
	}
	return m.write(ctx, "/etc/cni/net.d/10-pods.conflist", fmt.Sprintf(`{"cniVersion": "1.0.0", "name": "pods", "plugins": [
  {"type": "ptp", "ipam": {"type": "host-local", "ranges": [[{"subnet": %q}]], "routes": [{"dst": "0.0.0.0/0"}]}}
]}`, podRange), 0o644)
}

// startContainerd starts containerd and imports the images.
func (m *machine) startContainerd(ctx context.Context, images string) error {
	start := `containerd --config /etc/containerd/config.toml >/var/log/containerd.log 2>&1 &
for i in $(seq 300); do ctr version >/dev/null 2>&1 && exit; sleep 0.1; done
tail /var/log/containerd.log; exit 1`
	if _, err := m.run(ctx, "bash", "-c", start); err != nil {
		return err
	}
	_, err := m.run(ctx, "ctr", "-n", "k8s.io", "images", "import", "--local", images)
	return err
}

// cgroups removes the cgroup of the node's pods, which outlives its processes.
func removeCgroups(root string) error {
	dirs, err := filepath.Glob("/sys/fs/cgroup/*/" + root)
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		var all []string
		_ = filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
			if err == nil && entry.IsDir() {
				all = append(all, path)
			}
			return nil
		})
		for i := len(all) - 1; i >= 0; i-- {
			if err := os.Remove(all[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

func tail(text string, size int) string { return text[max(0, len(text)-size):] }
