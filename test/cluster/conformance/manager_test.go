package conformance

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/podstream/podstream/test/cluster/nodes"
	"github.com/podstream/podstream/test/devnode"
	"github.com/podstream/podstream/test/rig"
)

const (
	// unit is the agent's name for the specs. They look for kubelet-\w+.
	unit = "kubelet-node"
	// configFile is the file in the working directory in which specs write a configuration for the agent.
	configFile = "kubelet-config"
	// startAgain is the pause before a runtime that has ended is started again, like RestartSec of a unit.
	startAgain = 500 * time.Millisecond
)

// manager stands in for systemd. Specs of test/e2e_node request by systemctl that the agent is stopped and started
// again, perhaps with another configuration. Specs that kill the runtime expect that it is started again.
type manager struct {
	// bin has the commands systemctl, and sudo, which this machine needn't have.
	bin string
	// dir is the working directory of the specs.
	dir  string
	node *nodes.Node
	// runtime is started again when it has ended.
	runtime *devnode.Process
	mu      sync.Mutex
}

// startManager starts a manager, which ends with the test. dir is the working directory of the specs.
func startManager(t *testing.T, dir string, node *nodes.Node, runtime *devnode.Process) *manager {
	t.Helper()
	m := &manager{bin: filepath.Join(dir, "manager"), dir: dir, node: node, runtime: runtime}
	rig.Must(t, errors.Join(os.RemoveAll(m.bin), os.RemoveAll(filepath.Join(dir, configFile)), os.MkdirAll(m.bin, 0o755)))
	socket := filepath.Join(m.bin, "socket")
	listener := rig.Get(net.Listen("unix", socket))(t)
	systemctl := fmt.Sprintf("#!/bin/sh\nexec curl --silent --show-error --fail-with-body --unix-socket %q --data-binary \"$*\" http://manager/\n", socket)
	rig.Must(t, errors.Join(os.WriteFile(filepath.Join(m.bin, "sudo"), []byte("#!/bin/sh\nexec \"$@\"\n"), 0o755),
		os.WriteFile(filepath.Join(m.bin, "systemctl"), []byte(systemctl), 0o755)))

	server := &http.Server{Handler: m, ReadHeaderTimeout: time.Minute}
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	t.Cleanup(func() {
		rig.Must(t, server.Close())
		if err := <-done; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	if runtime != nil {
		m.keepRuntime(t)
	}
	return m
}

// path returns a PATH that begins with the manager's commands.
func (m *manager) path() string { return m.bin + string(os.PathListSeparator) + os.Getenv("PATH") }

// pidFile returns the path of the file that has the runtime's process ID.
func (m *manager) pidFile() string { return filepath.Join(m.bin, "runtime.pid") }

// keepRuntime starts the runtime again whenever it has ended, until the end of the test.
func (m *manager) keepRuntime(t *testing.T) {
	t.Helper()
	rig.Must(t, m.writePID())
	stop, done := make(chan struct{}), make(chan error, 1)
	go func() {
		for {
			select {
			case <-stop:
				done <- nil
				return
			case <-m.runtime.Done():
			}
			select {
			case <-stop:
				done <- nil
				return
			case <-time.After(startAgain):
			}
			if err := errors.Join(m.runtime.Start(), m.writePID()); err != nil {
				done <- err
				return
			}
		}
	}()
	t.Cleanup(func() {
		close(stop)
		rig.Must(t, <-done)
	})
}

// writePID replaces the file of the runtime's process ID. The specs accept only digits.
func (m *manager) writePID() error {
	return os.WriteFile(m.pidFile(), []byte(strconv.Itoa(m.runtime.Pid())), 0o644)
}

// ServeHTTP answers systemctl, whose arguments are the body.
func (m *manager) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	body, err := io.ReadAll(io.LimitReader(request.Body, 1<<10))
	if err == nil {
		err = m.do(w, strings.Fields(string(body)))
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

// do does what a command of systemctl requests.
func (m *manager) do(w io.Writer, args []string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch command := strings.Join(args, " "); command {
	case "list-units *kubelet*", "list-units *kubelet* --state=running":
		if m.runs() || len(args) == 2 {
			_, err := fmt.Fprintf(w, "%s.service loaded active running\n", unit)
			return err
		}
		return nil
	case "reset-failed " + unit:
		return nil
	case "kill " + unit:
		return m.node.End() // and waits, because a second SIGTERM would end podexecd at once
	case "restart " + unit:
		return m.start()
	default:
		return fmt.Errorf("this stand-in for systemd has no command %q", command)
	}
}

// runs reports whether all of the agent's daemons run.
func (m *manager) runs() bool {
	for _, daemon := range m.node.Daemons() {
		select {
		case <-daemon.Done():
			return false
		default:
		}
	}
	return true
}

// start starts the agent, again if it runs, with the configuration that a spec has written.
func (m *manager) start() error {
	config := m.node.Path("config.yaml")
	written := filepath.Join(m.dir, configFile)
	if _, err := os.Stat(written); err == nil {
		config = written
	}
	return m.node.Relaunch(config)
}

// Specs find the agent's unit as one that matches kubelet-\w+. The stand-in refuses what it can't do.
func TestManager(t *testing.T) {
	m := startManager(t, t.TempDir(), &nodes.Node{}, nil)
	systemctl := func(args ...string) (string, error) {
		cmd := exec.Command("sudo", append([]string{"systemctl"}, args...)...)
		cmd.Path, cmd.Err = filepath.Join(m.bin, "sudo"), nil
		cmd.Env = append(os.Environ(), "PATH="+m.path())
		output, err := cmd.CombinedOutput()
		return string(output), err
	}
	found, err := systemctl("list-units", "*kubelet*", "--state=running")
	if err != nil || regexp.MustCompile(`kubelet-\w+`).FindString(found) != unit {
		t.Errorf("the units are %q, %v", found, err)
	}
	if output, err := systemctl("reset-failed", unit); err != nil || output != "" {
		t.Errorf("reset-failed: %q, %v", output, err)
	}
	if output, err := systemctl("poweroff"); err == nil || !strings.Contains(output, `"poweroff"`) {
		t.Errorf("an unknown command: %q, %v", output, err)
	}
}
