package systemd_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// TestSystemOOM: podexecd as a unit reports the process that the kernel kills for the whole machine. The kernel's OOM
// killer is called by hand, and finds a process of the test that is the first to be killed.
func TestSystemOOM(t *testing.T) {
	awaitActive(t, "podexecd")
	victim := exec.CommandContext(t.Context(), "sh", "-c",
		`echo 1000 >/proc/self/oom_score_adj; memory=$(head -c 50000000 /dev/zero | tr '\0' x); echo ready; read -r line; echo "$memory"`)
	in, err := victim.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := victim.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := victim.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = victim.Wait() }()
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "ready\n" {
		t.Fatalf("the process says %q, %v", line, err)
	}
	began := time.Now()
	write := func(path, text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0); err != nil {
			t.Fatal(err)
		}
	}
	// A line of another writer than the kernel comes first, and isn't believed.
	write("/dev/kmsg", "<3>oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),global_oom,task_memcg=/,task=forged,pid=4242,uid=0\n")
	write("/proc/sysrq-trigger", "f")
	want := fmt.Sprintf("process=sh pid=%d", victim.Process.Pid)
	eventually(t, "the killed process is in the log", func() error {
		log := must(t, "journalctl", "--no-pager", "-o", "cat", "-u", "podexecd", fmt.Sprintf("--since=@%d", began.Unix()-1))
		switch {
		case strings.Contains(log, "forged"):
			t.Fatal("the forged report is believed")
		case !strings.Contains(log, "the machine was out of memory") || !strings.Contains(log, want):
			return fmt.Errorf("it lacks %q:\n%s", want, log)
		}
		return nil
	})
}
