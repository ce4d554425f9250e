package systemd_test

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"time"
)

// diagnosis returns what an engineer looks at first after a failure in the guest: whether the daemons or the container
// runtime ended, what they wrote last, what the kernel reports, and which processes hang.
func diagnosis() string {
	const journal = "journalctl --no-pager -o short-precise -n 40 -u "
	var out strings.Builder
	for _, command := range []string{
		"systemctl show -p Id,ActiveState,SubState,Result,NRestarts,InvocationID,ActiveEnterTimestamp,ExecMainStatus containerd podconfigd podexecd dockerd",
		journal + "podconfigd -u podexecd",
		journal + "containerd",
		journal + "dockerd",
		"dmesg | tail -n 20",
		// Of a hanging pod: its shim, runc, and the processes that sleep in the kernel without being interruptible.
		"ps -eo pid,ppid,lstart,stat,wchan:24,args | awk '$8 ~ /^[DZ]/ || /[r]unc|[c]ni/' | cut -c 1-200",
		`for pid in $(ps -eo pid,stat | awk '$2 ~ /^D/ { print $1 }'); do echo "$pid:"; cat /proc/$pid/stack; done`,
		// containerd writes the stacks of its goroutines to a file. Those of CRI's calls show what a call waits for.
		`systemctl kill --kill-whom=main --signal=USR1 containerd && sleep 1 && awk -v RS= -v ORS='\n\n' '/internal\/cri\/server/' /tmp/containerd.*.stacks.log | head -n 300`,
	} {
		fmt.Fprintf(&out, "\n$ %s\n%s", command, shell(command))
	}
	return out.String()
}

// shell returns the output of a command. After a failure, a command may hang too.
func shell(command string) string {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", command)
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Sprintf("%s%v\n", out, err)
	}
	return string(out)
}
