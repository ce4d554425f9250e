package strays

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	container = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	other     = "fedcba9876543210fedcba9876543210fedcba9876543210fedcba9876543210"
)

var command = []string{"tar", "-c", "-f", "-", "-C", "/data/.//./.", "./x"}

// shown is what /proc shows of a process.
type shown struct{ cgroup, cmdline string }

func inside(id string) string { return "4:memory:/kubepods/pod1/" + id + "\n0::/\n" }

func arguments(words ...string) string { return strings.Join(words, "\x00") + "\x00" }

// write writes the files of a process.
func (s shown) write(t *testing.T, proc string, pid int) {
	t.Helper()
	dir := filepath.Join(proc, strconv.Itoa(pid))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"cgroup": s.cgroup, "cmdline": s.cmdline} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// sleeping starts a process that ends with the test.
func sleeping(t *testing.T) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sleep", "600")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd
}

// Only a process of the container that runs the command is killed.
func TestKill(t *testing.T) {
	for name, tc := range map[string]struct {
		shown shown
		want  int
	}{
		"the command":          {shown{inside(container), arguments(command...)}, 1},
		"a scope of systemd":   {shown{"0::/a.slice/cri-containerd-" + container + ".scope\n", arguments(command...)}, 1},
		"below the container":  {shown{"0::/kubepods/pod1/" + container + "/inner\n", arguments(command...)}, 1},
		"a script":             {shown{inside(container), arguments(append([]string{"/bin/sh", "/bin/tar"}, command[1:]...)...)}, 1},
		"another container":    {shown{inside(other), arguments(command...)}, 0},
		"the pod's cgroup":     {shown{"0::/kubepods/pod1\n", arguments(command...)}, 0},
		"a longer name":        {shown{inside("x" + container), arguments(command...)}, 0},
		"no cgroup":            {shown{"", arguments(command...)}, 0},
		"without the mark":     {shown{inside(container), arguments("tar", "-c", "-f", "-", "-C", "/data", "./x")}, 0},
		"another path":         {shown{inside(container), arguments("tar", "-c", "-f", "-", "-C", "/data/.//./.", "./y")}, 0},
		"the path before more": {shown{inside(container), arguments(append(command, "./y")...)}, 0},
		"only the arguments":   {shown{inside(container), arguments(command[1:]...)}, 0},
		"no arguments":         {shown{inside(container), ""}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			proc, process := t.TempDir(), sleeping(t)
			tc.shown.write(t, proc, process.Process.Pid)
			if err := os.Mkdir(filepath.Join(proc, "sys"), 0o755); err != nil {
				t.Fatal(err)
			}
			if killed, err := New(proc).Kill(container, command); err != nil || killed != tc.want {
				t.Fatalf("%d processes are killed, %v; want %d", killed, err, tc.want)
			}
			if tc.want == 0 {
				if err := process.Process.Signal(syscall.Signal(0)); err != nil {
					t.Errorf("the process is gone: %v", err)
				}
				return
			}
			state, err := process.Process.Wait()
			if status, ok := state.Sys().(syscall.WaitStatus); err != nil || !ok || status.Signal() != syscall.SIGKILL {
				t.Errorf("the process ends with %v, %v", state, err)
			}
		})
	}
}

// A process that has ended meanwhile is no error, and nothing of it counts.
func TestKillEnded(t *testing.T) {
	proc, process := t.TempDir(), exec.CommandContext(t.Context(), "true")
	if err := process.Run(); err != nil {
		t.Fatal(err)
	}
	shown{inside(container), arguments(command...)}.write(t, proc, process.Process.Pid)
	if killed, err := New(proc).Kill(container, command); killed != 0 || err != nil {
		t.Errorf("%d processes are killed, %v", killed, err)
	}
	if _, err := New(filepath.Join(proc, "none")).Kill(container, command); err == nil {
		t.Error("without /proc there is no error")
	}
}

// The name of a cgroup that isn't a container's kills nothing.
func TestKillWrongID(t *testing.T) {
	for _, id := range []string{"", "kubepods", "pod1", container[1:], container + "0", container + "\n", strings.ToUpper(container), "../" + container} {
		proc, process := t.TempDir(), sleeping(t)
		shown{"0::/kubepods/pod1/" + id + "/x\n", arguments(command...)}.write(t, proc, process.Process.Pid)
		if killed, err := New(proc).Kill(id, command); killed != 0 || err == nil || !strings.Contains(err.Error(), "64 hexadecimal digits") {
			t.Errorf("%q: %d processes are killed, %v", id, killed, err)
		}
	}
}
