package devnode

import "errors"

// PowerOff ends the node as a power cut does: the daemons, the runtime, all containers and their shims get SIGKILL, and nothing can react
// to the end of another one. Files and mounts stay, as they belong to the machine that the node shares. Only Close may follow.
func (n *Node) PowerOff() error {
	sockets, err := n.oldSocketDir()
	if err != nil {
		return err
	}
	return n.step("powering the node off", func() error { return errors.Join(n.killProcesses(), n.killAll(sockets)) })
}

// killProcesses kills this process's children, the latest one first.
func (n *Node) killProcesses() error {
	n.mu.Lock()
	processes := n.processes
	n.mu.Unlock()
	var errs []error
	for i := len(processes) - 1; i >= 0; i-- {
		if processes[i].Pid() == 0 {
			continue // never started
		}
		errs = append(errs, processes[i].Kill())
	}
	return errors.Join(errs...)
}

// killAll kills all that runs below the node's directory, and in the other directory of its sockets, if there is one.
func (n *Node) killAll(sockets string) error {
	dirs := []string{n.dir}
	if sockets != "" {
		dirs = append(dirs, sockets)
	}
	// First the programs that could start others, then the containers while their shims can reap them, then the shims.
	return errors.Join(
		killPrograms(dirs, "podexecd", "podconfigd", "podctl", "simruntimed", "containerd"),
		n.deleteContainers(),
		killPrograms(dirs, "containerd-shim-runc-v2"),
	)
}
