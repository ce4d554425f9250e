package devnode

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// containerd runs one shim for each pod sandbox: the parent of the sandbox's and its containers' processes. Both
// survive the end of containerd. Tests end them with the methods of this file, by the IDs of CRI.

// Shims returns the process IDs of the running shims, by the ID of their pod sandbox. It works without containerd.
func (n *Node) Shims() (map[string]int, error) {
	pids, err := processIDs()
	if err != nil {
		return nil, err
	}
	shims := make(map[string]int)
	for _, pid := range pids {
		if sandbox, ok := n.shimOf(pid); ok {
			shims[sandbox] = pid
		}
	}
	return shims, nil
}

// shimOf returns the sandbox of the process, if the process is a shim of this node.
func (n *Node) shimOf(pid int) (sandbox string, ok bool) {
	dirs := []string{n.dir, n.socketDir}
	if !isProgramOf(pid, dirs, []string{"containerd-shim-runc-v2"}) {
		return "", false
	}
	args := commandLine(pid)
	// The same program starts a shim and cleans up after one. Then its last argument is the action.
	action := args[len(args)-1]
	if at := slices.Index(args, "-id"); at >= 0 && at+1 < len(args) && action != "start" && action != "delete" {
		return args[at+1], true
	}
	return "", false
}

// KillShim ends the shim of a pod sandbox with SIGKILL, and returns when it has ended. containerd then kills the
// processes in the sandbox, at once or when it starts again.
func (n *Node) KillShim(sandbox string) error {
	shims, err := n.Shims()
	if err != nil {
		return fmt.Errorf("kill shim: %w", err)
	}
	pid, ok := shims[sandbox]
	if !ok {
		return fmt.Errorf("kill shim of sandbox %s: %w", sandbox, os.ErrProcessDone)
	}
	// containerd removes the bundle that contains the socket's path, but not the socket.
	socket, err := n.shimSocket(sandbox)
	if err != nil {
		return fmt.Errorf("kill shim: %w", err)
	}
	if err := killPinned(pid, func() bool { found, ok := n.shimOf(pid); return ok && found == sandbox }); err != nil {
		return fmt.Errorf("kill shim of sandbox %s: %w", sandbox, err)
	}
	return removeSocket(socket)
}

// KillTask ends the first process of a container or pod sandbox with SIGKILL, and returns when it has ended. It has
// the effect of a crash: the shim reports the end to containerd. It returns os.ErrProcessDone if the process doesn't
// run.
func (n *Node) KillTask(id string) error {
	pid, err := n.taskPID(id)
	if err == nil {
		err = killPinned(pid, func() bool { now, err := n.taskPID(id); return err == nil && now == pid })
	}
	if err != nil {
		return fmt.Errorf("kill task %s: %w", id, err)
	}
	return nil
}

// taskPID returns the first process of a container or sandbox, from runc's state.
func (n *Node) taskPID(id string) (int, error) {
	content, err := os.ReadFile(filepath.Join(n.runcRoot(), id, "state.json"))
	if errors.Is(err, os.ErrNotExist) {
		return 0, os.ErrProcessDone
	}
	if err != nil {
		return 0, err
	}
	var state struct {
		PID       int    `json:"init_process_pid"`
		StartTime uint64 `json:"init_process_start"`
	}
	if err := json.Unmarshal(content, &state); err != nil {
		return 0, err
	}
	// Another process may have the same process ID now.
	if started, ok := startTime(state.PID); !ok || started != state.StartTime || isZombie(state.PID) {
		return 0, os.ErrProcessDone
	}
	return state.PID, nil
}

// startTime returns the start of a process, in the kernel's ticks since boot.
func startTime(pid int) (ticks uint64, ok bool) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, false
	}
	// The second field, the name, may contain spaces. It ends at the last parenthesis. The start time is field 22.
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	if len(fields) < 20 {
		return 0, false
	}
	ticks, err = strconv.ParseUint(fields[19], 10, 64)
	return ticks, err == nil
}

// shimBundles has a directory for each sandbox and container.
func (n *Node) shimBundles() string {
	return filepath.Join(n.containerdState(), "io.containerd.runtime.v2.task", criNamespace)
}

// shimSocket returns the path of the socket of a sandbox's shim. It is empty if there is none.
func (n *Node) shimSocket(id string) (string, error) {
	address, err := n.shimAddress(id)
	if err != nil {
		return "", err
	}
	socket := strings.TrimPrefix(strings.TrimSpace(address), "unix://")
	if filepath.Base(filepath.Dir(socket)) != "s" {
		return "", nil // an abstract socket, or an unknown place
	}
	return socket, nil
}

// shimAddress returns what the bundle of a sandbox's shim has as its address: containerd 1 keeps it in a file of its
// own, containerd 2 with the shim's other parameters. It is empty if there is none.
func (n *Node) shimAddress(id string) (string, error) {
	content, err := os.ReadFile(filepath.Join(n.shimBundles(), id, "bootstrap.json"))
	if errors.Is(err, os.ErrNotExist) {
		content, err = os.ReadFile(filepath.Join(n.shimBundles(), id, "address"))
		if errors.Is(err, os.ErrNotExist) {
			return "", nil
		}
		return string(content), err
	}
	if err != nil {
		return "", err
	}
	var bootstrap struct {
		Address string `json:"address"`
	}
	if err := json.Unmarshal(content, &bootstrap); err != nil {
		return "", fmt.Errorf("bootstrap.json of sandbox %s: %w", id, err)
	}
	return bootstrap.Address, nil
}

// removeSocket removes a shim's socket, if there is one.
func removeSocket(path string) error {
	if path == "" {
		return nil
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}
