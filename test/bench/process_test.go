package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// server is a server in a separate process, and the pipes that control it. One goroutine at a time uses it.
type server struct {
	cfg serverConfig
	in  io.WriteCloser
	out io.Reader
	pid int
	buf [64]byte
}

// startServer starts a server that ends with the test. It sets Socket and, if a store is wanted, Store.
func startServer(tb testing.TB, cfg serverConfig) *server {
	tb.Helper()
	// tb.TempDir is too long for a socket's path.
	dir, err := os.MkdirTemp("", "ps")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = os.RemoveAll(dir) })
	cfg.Socket = filepath.Join(dir, "s")
	if cfg.Store != "" {
		cfg.Store = filepath.Join(dir, cfg.Store)
	}
	text, err := json.Marshal(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), serverEnv+"="+string(text))
	cmd.Stderr = os.Stderr
	s := &server{cfg: cfg}
	if s.in, err = cmd.StdinPipe(); err != nil {
		tb.Fatal(err)
	}
	if s.out, err = cmd.StdoutPipe(); err != nil {
		tb.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		_ = s.in.Close()
		_ = cmd.Wait()
	})
	s.pid = cmd.Process.Pid
	if err := receive(s.out, s.buf[:], &answer{}); err != nil {
		tb.Fatalf("the server %s doesn't start: %v", cfg.Variant, err)
	}
	return s
}

func (s *server) command(tb testing.TB, r request) (a answer) {
	tb.Helper()
	err := send(s.in, s.buf[:], r)
	if err == nil {
		err = receive(s.out, s.buf[:], &a)
	}
	if err != nil {
		tb.Fatalf("the server %s is gone: %v", s.cfg.Variant, err)
	}
	return a
}

// publish publishes this many changes to pods of that size, and returns the time of the last one.
func (s *server) publish(tb testing.TB, count, size int) (began int64) {
	tb.Helper()
	return int64(s.command(tb, request{publishPods, uint64(count), uint64(size)}).Published)
}

func (s *server) usage(tb testing.TB) answer  { return s.command(tb, request{Command: reportUsage}) }
func (s *server) memory(tb testing.TB) answer { return s.command(tb, request{Command: reportMemory}) }

// needFiles raises the limit of open files for this process, and for the servers that it starts.
func needFiles(tb testing.TB, n uint64) {
	tb.Helper()
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		tb.Fatal(err)
	}
	if limit.Cur >= n {
		return
	}
	limit.Cur, limit.Max = n, max(n, limit.Max)
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		tb.Skipf("the benchmark needs %d open files, and the limit can't be raised (%v): ulimit -n %d", n, err, n)
	}
}

// memoryOf returns a field of proc(5) status that is given in kB, in bytes; zero if it doesn't exist.
func memoryOf(pid, field string) uint64 {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%s/status", pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(line, field+":"); ok {
			kib, _ := strconv.ParseUint(strings.Fields(rest)[0], 10, 64)
			return kib << 10
		}
	}
	return 0
}
