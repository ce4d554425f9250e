package stats

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// fill gives a process of the container app some open files, one of which is a socket, and a thread.
func (w *world) fill(pid, files int) {
	w.t.Helper()
	w.write(fmt.Sprintf("proc/%d/limits", pid), "Max open files            1024                 4096            files     \n")
	w.write(fmt.Sprintf("proc/%d/task/%d/stat", pid, pid), fmt.Sprintf("%d (app) S 1\n", pid))
	dir := w.path(fmt.Sprintf("proc/%d/fd", pid))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		w.t.Fatal(err)
	}
	for i := range files {
		target := "/dev/null"
		if i == 0 {
			target = "socket:[1]"
		}
		if err := os.Symlink(target, fmt.Sprintf("%s/%d", dir, i)); err != nil {
			w.t.Fatal(err)
		}
	}
}

func TestProcesses(t *testing.T) {
	for _, version := range []string{"v1", "v2"} {
		w := newWorld(t, version)
		w.fill(5001, 3)
		w.fill(5002, 2)
		text := ask(t, w.start().CadvisorHandler(), "").Body.String()
		for series, want := range map[string]string{
			"container_file_descriptors{container=\"app\"": "5", "container_sockets{container=\"app\"": "2",
			"container_ulimits_soft{container=\"app\"": "1024", "container_tasks_state{container=\"app\"": "0",
		} {
			if got := valueOf(text, series); got != want {
				t.Errorf("%s: %s is %q; want %s", version, series, got, want)
			}
		}
		if !strings.Contains(text, `state="sleeping"} 2 `) {
			t.Errorf("%s: no two sleeping threads in:\n%s", version, text)
		}
	}
}

// valueOf returns the value of the first series with that beginning.
func valueOf(text, series string) string {
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, series); ok {
			_, rest, _ = strings.Cut(rest, "} ")
			value, _, _ := strings.Cut(rest, " ")
			return value
		}
	}
	return ""
}

// A container with more files than are looked at has the number of those that were looked at.
func TestManyFiles(t *testing.T) {
	w := newWorld(t, "v2")
	w.fill(5001, 500)
	s := w.start()
	s.tasksFiles = 300
	// The process itself is one of the 300.
	if got := valueOf(ask(t, s.CadvisorHandler(), "").Body.String(), "container_file_descriptors{container=\"app\""); got != "299" {
		t.Errorf("the number of files is %q; want 299", got)
	}
}

// A directory of /proc that doesn't answer delays only the scrape that finds it, and that by a limited
// time: the test ends.
func TestProcessHangs(t *testing.T) {
	w := newWorld(t, "v2")
	w.fill(5001, 1)
	hung := w.path("proc/5001/task/5001/stat")
	if err := os.Remove(hung); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(hung, 0o600); err != nil {
		t.Fatal(err)
	}
	s := w.start()
	s.tasksTime = 50 * time.Millisecond
	text := ask(t, s.CadvisorHandler(), "").Body.String()
	if !strings.Contains(text, "container_memory_rss") || strings.Contains(text, "container_file_descriptors") {
		t.Errorf("while a file hangs:\n%s", text)
	}
	f, err := os.OpenFile(hung, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_ = f.Close()
}
