package roottest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
)

// mountsVariable marks the process with mounts of its own.
const mountsVariable = "PODSTREAM_TEST_OWN_MOUNTS"

// OwnMounts makes the test program go on in a child process with mounts of its own, and returns only there: a TestMain calls it
// for tests that look whether a disk is mounted anywhere. Each container that starts meanwhile, of other tests too, has all mounts of the
// machine for a moment. Without root it does nothing.
func OwnMounts() {
	if os.Geteuid() != 0 || os.Getenv(mountsVariable) != "" {
		_ = os.Unsetenv(mountsVariable)
		return
	}
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Args[0] = os.Args[0]
	cmd.Env = append(os.Environ(), mountsVariable+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	// The child ends with the thread that has started it, and Go makes its mounts private.
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	runtime.LockOSThread()
	err := cmd.Run()
	if exit, failed := errors.AsType[*exec.ExitError](err); failed && exit.ExitCode() > 0 {
		os.Exit(exit.ExitCode())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "run the tests with mounts of their own:", err)
		os.Exit(1)
	}
	os.Exit(0)
}
