package systemd_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/podstream/podstream/internal/execsvc/machine/logind"
)

const (
	// ending and critical are the configured times of the two groups of pods, and margin is what podexecd asks
	// logind for in addition.
	ending, critical, margin = 20 * time.Second, 15 * time.Second, 5 * time.Second
	diaries                  = "/var/lib/diaries"
	logindDropIn             = "/etc/systemd/logind.conf.d/99-kubelet.conf"
	kubeletConfig            = "/etc/podstream/kubelet.yaml"
)

// graceful writes a configuration with a graceful shutdown, and returns podexecd's flags for it.
func graceful(t *testing.T) (flags string) {
	t.Helper()
	text := fmt.Sprintf("apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"+
		"shutdownGracePeriod: %v\nshutdownGracePeriodCriticalPods: %v\n", ending+critical, critical)
	must(t, "mkdir", "-p", filepath.Dir(kubeletConfig), diaries)
	if err := os.WriteFile(kubeletConfig, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return "PODEXECD_FLAGS=--config=" + kubeletConfig
}

// gracefully restarts podexecd with a graceful shutdown, until the test ends.
func gracefully(t *testing.T) {
	t.Helper()
	dropIn(t, podexecd, "Environment="+graceful(t))
	must(t, "systemctl", "restart", podexecd)
	awaitActive(t, podexecd)
	awaitLock(t)
}

// locks returns podexecd's locks.
func locks(t *testing.T) (out []string) {
	t.Helper()
	for line := range strings.Lines(must(t, "systemd-inhibit", "--list", "--no-legend", "--mode=delay")) {
		if strings.Contains(line, "podexecd") {
			out = append(out, line)
		}
	}
	return out
}

// awaitLock waits until podexecd holds logind's lock.
func awaitLock(t *testing.T) {
	t.Helper()
	eventually(t, "podexecd holds one lock", func() error {
		if held := locks(t); len(held) != 1 || !strings.Contains(held[0], "kubelet") || !strings.Contains(held[0], "shutdown Kubelet needs time to handle node shutdown") {
			return fmt.Errorf("its locks are %q", held)
		}
		return nil
	})
}

func dialLogind(t *testing.T) *logind.Conn {
	t.Helper()
	c, err := logind.Dial(t.Context(), logind.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// delayShutdown delays a shutdown for as long as logind grants, until the test ends.
func delayShutdown(t *testing.T, c *logind.Conn) io.Closer {
	t.Helper()
	lock, err := c.Inhibit(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = lock.Close() })
	return lock
}

func awaitPreparing(t *testing.T, c *logind.Conn, want bool) {
	t.Helper()
	eventually(t, fmt.Sprintf("a shutdown is prepared: %v", want), func() error {
		if got, err := c.Preparing(t.Context()); err != nil || got != want {
			return fmt.Errorf("%v, %w", got, err)
		}
		return nil
	})
}

// awaitDelay waits until logind grants that delay: it reads its drop-in a moment after it was asked to.
func awaitDelay(t *testing.T, c *logind.Conn, want time.Duration) {
	t.Helper()
	eventually(t, fmt.Sprintf("logind delays a shutdown for %v", want), func() error {
		if delay, err := c.MaxDelay(t.Context()); err != nil || delay != want {
			return fmt.Errorf("it grants %v, %w", delay, err)
		}
		return nil
	})
}

// diarist is a pod that keeps a diary, and runs a command of the sample.
func diarist(name string, priority, grace int, hook string, command ...string) string {
	return fmt.Sprintf(`{apiVersion: v1, kind: Pod, metadata: {name: %[1]s}, spec: {priority: %[2]d, terminationGracePeriodSeconds: %[3]d,
  containers: [{name: c, image: "localhost/podstream-sample:dev", imagePullPolicy: IfNotPresent, args: [diary, /d/%[1]s, %[4]s], %[5]s
    volumeMounts: [{name: d, mountPath: /d}]}], volumes: [{name: d, hostPath: {path: %[6]s}}]}}
`, name, priority, grace, strings.Join(command, ", "), hook, diaries)
}

const systemNodeCritical = 2_000_001_000

// note is an entry of a diary.
type note struct {
	at   time.Time
	what string
}

func diary(t *testing.T, name string) []note {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(diaries, name))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	var out []note
	for line := range strings.Lines(string(text)) {
		var nanos int64
		var run, what string
		if _, err := fmt.Sscan(line, &nanos, &run, &what); err != nil {
			t.Fatalf("the diary of %s has the line %q: %v", name, line, err)
		}
		out = append(out, note{time.Unix(0, nanos), what})
	}
	return out
}

// count returns the number of such entries, and the time of the last one.
func count(notes []note, what string) (n int, last time.Time) {
	for _, each := range notes {
		if each.what == what {
			n, last = n+1, each.at
		}
	}
	return n, last
}

// awaitNotes waits until a diary has that number of such entries.
func awaitNotes(t *testing.T, name, what string, want int) {
	t.Helper()
	eventually(t, fmt.Sprintf("%s has %d times %s", name, want, what), func() error {
		if n, _ := count(diary(t, name), what); n != want {
			return fmt.Errorf("%d times", n)
		}
		return nil
	})
}

func wantNotes(t *testing.T, name, what string, want int) {
	t.Helper()
	if n, _ := count(diary(t, name), what); n != want {
		t.Errorf("%s has %d times %s; want %d", name, n, what, want)
	}
}

// awaitRejected waits until a pod is rejected, as its status shows.
func awaitRejected(t *testing.T, pod string) {
	t.Helper()
	eventually(t, pod+" is rejected", func() error {
		out, err := run("/usr/local/bin/podctl", "describe", pod)
		if err != nil || !strings.Contains(out, "NodeShutdown") || !strings.Contains(out, "Pod was rejected as the node is shutting down.") {
			return fmt.Errorf("%w\n%s", err, out)
		}
		return nil
	})
}

// TestShutdownLock: podexecd has logind delay a shutdown for long enough, also after restarts of logind and of itself.
// logind does what logindtest.Login does.
func TestShutdownLock(t *testing.T) {
	c := dialLogind(t)
	if held := locks(t); len(held) > 0 {
		t.Errorf("without the settings it holds %q", held)
	}
	gracefully(t)
	awaitDelay(t, c, ending+critical+margin)
	must(t, "systemctl", "restart", "systemd-logind")
	select {
	case <-c.Lost():
	case <-time.After(patience):
		t.Error("a restart of logind isn't noticed")
	}
	awaitLock(t)
	must(t, "systemctl", "kill", "--signal=KILL", "--kill-whom=main", podexecd)
	awaitActive(t, podexecd)
	awaitLock(t)
	c = dialLogind(t)
	if err := c.SetMaxDelay(ending + critical + margin + time.Second); err != nil {
		t.Fatal(err)
	}
	if err := c.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	awaitDelay(t, c, ending+critical+margin+time.Second)
}

// TestShutdownCancelled: pods are ended, and no new one is admitted. After a cancellation they start again, and new ones
// do: after shutdown -c, of which logind sends no signal, and after a shutdown that systemd refuses.
func TestShutdownCancelled(t *testing.T) {
	gracefully(t)
	c := dialLogind(t)
	delayShutdown(t, c)
	write(t, "stay", diarist("stay", 0, 30, "", "sleep"))
	awaitNotes(t, "stay", "start", 1)
	awaitRunning(t, "stay")
	for i, cancel := range []func(){
		func() { must(t, "shutdown", "-c") },
		func() {
			must(t, "systemctl", "mask", "--runtime", "poweroff.target")
			t.Cleanup(func() { must(t, "systemctl", "unmask", "--runtime", "poweroff.target") })
		},
	} {
		must(t, "systemctl", "poweroff")
		awaitPreparing(t, c, true)
		if _, err := c.Inhibit(t.Context()); !errors.Is(err, logind.ErrUnderWay) {
			t.Errorf("a lock during the shutdown: %v", err)
		}
		awaitNotes(t, "stay", "term", i+1)
		awaitStatus(t, podexecd, "the machine shuts down")
		late := fmt.Sprintf("late-%d", i)
		write(t, late, manifest(late, plain))
		awaitRejected(t, late)
		wantNotes(t, "stay", "start", i+1)
		cancel()
		awaitPreparing(t, c, false)
		awaitNotes(t, "stay", "start", i+2)
		awaitRunning(t, "stay", late)
		awaitStatus(t, podexecd, "running; pods: ")
		awaitLock(t)
	}
	// A shutdown that was only scheduled isn't noticed.
	must(t, "shutdown", "+60")
	must(t, "shutdown", "-c")
	wantNotes(t, "stay", "term", 2)
}

// TestShutdownKilled: podexecd that is killed during a shutdown goes on ending pods, and starts none.
func TestShutdownKilled(t *testing.T) {
	gracefully(t)
	c := dialLogind(t)
	delayShutdown(t, c)
	write(t, "first", diarist("first", 0, 30, "", "on-term", "/d/ignored", "x", "4s"))
	write(t, "second", diarist("second", systemNodeCritical, 30, "", "sleep"))
	awaitRunning(t, "first", "second")
	must(t, "systemctl", "poweroff")
	awaitNotes(t, "first", "term", 1)
	was := startOf(t, podexecd)
	must(t, "systemctl", "kill", "--signal=KILL", "--kill-whom=main", podexecd)
	eventually(t, "podexecd starts again", func() error {
		if startOf(t, podexecd).id == was.id {
			return fmt.Errorf("it is the start %v", was)
		}
		return nil
	})
	awaitNotes(t, "second", "term", 1)
	write(t, "late", manifest("late", plain))
	awaitRejected(t, "late")
	for _, pod := range []string{"first", "second"} {
		wantNotes(t, pod, "start", 1)
	}
	awaitPreparing(t, c, true)
	must(t, "shutdown", "-c")
	for _, pod := range []string{"first", "second"} {
		awaitNotes(t, pod, "start", 2)
	}
	awaitRunning(t, "first", "second", "late")
}
