package process

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"go.uber.org/goleak"
)

// role is set in the environment of the processes that the tests start.
const role = "PODSTREAM_PROCESS_ROLE"

func TestMain(m *testing.M) {
	switch os.Getenv(role) {
	case "orderly":
		Main(func(ctx context.Context) int {
			fmt.Println("up")
			<-ctx.Done()
			return 7
		})
	case "limited":
		limited()
		return
	case "hanging":
		Main(func(ctx context.Context) int {
			fmt.Println("up")
			<-ctx.Done()
			fmt.Println("ending")
			select {}
		})
	}
	goleak.VerifyTestMain(m)
}

// child is a process of Main, and what it prints.
type child struct {
	*exec.Cmd
	lines *bufio.Scanner
}

func start(t *testing.T, as string) *child {
	t.Helper()
	c := &child{Cmd: exec.CommandContext(t.Context(), os.Args[0])}
	c.Env = append(os.Environ(), role+"="+as)
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.lines = bufio.NewScanner(out)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	c.await(t, "up")
	return c
}

func (c *child) await(t *testing.T, line string) {
	t.Helper()
	if !c.lines.Scan() || c.lines.Text() != line {
		t.Fatalf("the process prints %q; want %q", c.lines.Text(), line)
	}
}

func (c *child) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	if err := c.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// wait is how the process ended.
func (c *child) wait(t *testing.T) syscall.WaitStatus {
	t.Helper()
	if err := c.Wait(); err != nil && !errors.As(err, new(*exec.ExitError)) {
		t.Fatal(err)
	}
	return c.ProcessState.Sys().(syscall.WaitStatus)
}

func TestSignalEnds(t *testing.T) {
	for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		c := start(t, "orderly")
		c.signal(t, s)
		if got := c.wait(t); got.ExitStatus() != 7 {
			t.Errorf("after %v the process ends with %v; want run's exit code, 7", s, got)
		}
	}
}

// The test itself would hang if the second signal were swallowed as well.
func TestSecondSignalKills(t *testing.T) {
	for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		c := start(t, "hanging")
		c.signal(t, syscall.SIGINT)
		c.await(t, "ending")
		c.signal(t, s)
		if got := c.wait(t); !got.Signaled() || got.Signal() != s {
			t.Errorf("after a second signal, %v, the process ends with %v; want it killed by that", s, got)
		}
	}
}
