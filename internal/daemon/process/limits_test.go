package process

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// limited sets the limits of its own process, and prints them, then those of a process that it starts.
func limited() {
	most := uint64(1000)
	if text := os.Getenv(role + "_FILES"); text != "" {
		fmt.Sscan(text, &most)
	}
	fmt.Println("up")
	for _, err := range []error{SetOOMScoreAdj(321), SetOpenFiles(most)} {
		fmt.Println("set:", err)
	}
	for _, argv := range [][]string{{"cat", "/proc/self/oom_score_adj"}, {"sh", "-c", "ulimit -Sn; ulimit -Hn"}} {
		out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput()
		fmt.Println(strings.Join(strings.Fields(string(out)), " "), err)
	}
	var limit unix.Rlimit
	err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit)
	own, failed := os.ReadFile("/proc/self/oom_score_adj")
	fmt.Println(limit.Cur, limit.Max, strings.TrimSpace(string(own)), errors.Join(err, failed))
}

// TestLimits: the process has the limits, and so has a process that it starts.
func TestLimits(t *testing.T) {
	c := start(t, "limited")
	for _, line := range []string{"set: <nil>", "set: <nil>", "321 <nil>", "1000 1000 <nil>", "1000 1000 321 <nil>"} {
		c.await(t, line)
	}
	c.wait(t)
}

// TestLimitRefused: a limit that the kernel refuses is an error that has the one that stays.
func TestLimitRefused(t *testing.T) {
	t.Setenv(role+"_FILES", "18446744073709551614") // More than fs.nr_open, which bounds root too.
	c := start(t, "limited")
	c.await(t, "set: <nil>")
	if !c.lines.Scan() || !strings.HasPrefix(c.lines.Text(), "set: operation not permitted; the limit stays at ") {
		t.Errorf("too many files: %q; want an error with the limit that stays", c.lines.Text())
	}
	if err := c.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	c.wait(t)
}
