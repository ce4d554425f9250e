package kmsg

import (
	"bufio"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/cgroups"
	"github.com/opencontainers/cgroups/manager"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/podstream/podstream/internal/roottest"
)

// eatVariable makes the test binary a process that waits for a line and then takes more memory than its cgroup may
// have.
const eatVariable = "PODSTREAM_TEST_EAT"

// hostileName is the name that the process gives itself: it looks like fields of a report, and has a line break.
const hostileName = ",pid=1,uid=0\n\\)"

// limit is the cgroup's, in bytes.
const limit = 32 << 20

func TestMain(m *testing.M) {
	if os.Getenv(eatVariable) != "" {
		_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
		if err := os.WriteFile("/proc/self/comm", []byte(hostileName), 0); err != nil {
			fmt.Println(err)
			return
		}
		_, err := unix.Mmap(-1, 0, 2*limit, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE|unix.MAP_LOCKED|unix.MAP_POPULATE)
		fmt.Println("it is still there:", err)
		return
	}
	goleak.VerifyTestMain(m)
}

// A process that exceeds its cgroup's memory is reported, and not as a system OOM. A line that looks like a report, and
// that a program writes to the log, isn't.
func TestRealOOM(t *testing.T) {
	roottest.Need(t, "reading the kernel's log and making a cgroup")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	reports := make(chan OOM, 100)
	w := New(Config{OOM: func(o OOM) { reports <- o }})
	opened := make(chan struct{})
	open := w.open
	w.open = func() (io.ReadSeekCloser, error) {
		l, err := open()
		return seekSignal{l, opened}, err
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		w.Run(ctx)
	}()
	defer func() { cancel(); <-ended }()
	select {
	case <-opened:
	case <-ctx.Done():
		t.Fatal("the log isn't opened")
	}

	forge(ctx, t)
	victim := exec.CommandContext(ctx, "/proc/self/exe")
	victim.Env = append(os.Environ(), eatVariable+"=1")
	in, err := victim.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	victim.Stdout, victim.Stderr = &out, &out
	if err := victim.Start(); err != nil {
		t.Fatal(err)
	}
	confine(t, victim.Process.Pid)
	if _, err := in.Write([]byte("\n")); err != nil {
		t.Fatal(err)
	}
	if err := victim.Wait(); err == nil {
		t.Fatalf("the process ends by itself: %s", &out)
	}
	for {
		select {
		case o := <-reports:
			if o.PID != victim.Process.Pid {
				// Another process of this machine.
				if o.Process == "forged" {
					t.Error("the forged report is believed")
				}
				continue
			}
			if want := `,pid=1,uid=0\x0a\x5c)`; o.System || o.Process != want {
				t.Errorf("%+v; want the process %s", o, want)
			}
			return
		case <-ctx.Done():
			t.Fatalf("the kill of process %d isn't reported", victim.Process.Pid)
		}
	}
}

// seekSignal closes a channel once the watcher is at the log's end.
type seekSignal struct {
	io.ReadSeekCloser
	sought chan struct{}
}

func (s seekSignal) Seek(offset int64, whence int) (int64, error) {
	defer close(s.sought)
	return s.ReadSeekCloser.Seek(offset, whence)
}

// confine moves the process into a cgroup with the limit, which is removed at the end of the test.
func confine(t *testing.T, pid int) {
	t.Helper()
	// MemorySwap is the sum of memory and swap: there is no swap.
	config := &cgroups.Cgroup{Path: "/podstream-test-" + rand.Text(), Resources: &cgroups.Resources{Memory: limit, MemorySwap: limit}}
	m, err := manager.New(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Destroy(); err != nil {
			t.Errorf("remove the cgroup: %v", err)
		}
	})
	if err := m.Apply(pid); err != nil {
		t.Fatal(err)
	}
	if err := m.Set(config.Resources); err != nil {
		t.Fatal(err)
	}
}

// forge writes a report to the log, and waits until it is there.
func forge(ctx context.Context, t *testing.T) {
	t.Helper()
	log, err := os.OpenFile(Device, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	if _, err := log.Seek(0, io.SeekEnd); err != nil {
		t.Fatal(err)
	}
	stop := context.AfterFunc(ctx, func() { _ = log.Close() })
	defer stop()
	// The level is that of a message of the kernel; a facility can't be the kernel's.
	forged := strings.Replace(global, "task=sh", "task=forged", 1)
	if _, err := log.Write([]byte("<6>" + forged + "\n")); err != nil {
		t.Fatal(err)
	}
	buffer := make([]byte, recordSize)
	for {
		n, err := log.Read(buffer)
		if err != nil {
			t.Fatalf("read the forged report: %v", err)
		}
		if strings.Contains(string(buffer[:n]), forged) {
			return
		}
	}
}
