package subpath

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/mount-utils"

	"github.com/podstream/podstream/internal/roottest"
)

// TestSilentMount: a target is unmounted without a question to its file system, which may never answer, as that of an NFS server that is
// gone. An autofs stands for it: while its daemon owes an answer, every process that opens it waits.
func TestSilentMount(t *testing.T) {
	roottest.Need(t, "mounting")
	dir := newTargets(t)
	target := targetOf(dir, "c")
	must(t, os.MkdirAll(target, 0o750))
	requests, kernelEnd, err := os.Pipe()
	must(t, err)
	defer requests.Close()
	defer kernelEnd.Close()
	// The daemon is a process group of its own, as no process of the daemon's waits.
	daemon := inGroup(t, "sleep", "infinity")
	options := fmt.Sprintf("fd=%d,pgrp=%d,minproto=5,maxproto=5,direct", kernelEnd.Fd(), daemon.Process.Pid)
	roottest.Able(t, unix.Mount("silent", target, "autofs", 0, options))
	t.Cleanup(func() { _ = unix.Unmount(target, unix.MNT_DETACH) })
	opener := inGroup(t, "ls", target)
	if _, err := requests.Read(make([]byte, 4096)); err != nil {
		t.Fatal(err)
	}
	unmounting := make(chan struct{})
	done := make(chan error, 1)
	go func() {
		done <- CleanUp(dir, afterwards{mount.New(""), func() {
			close(unmounting)
			end(opener) // autofs makes umount(2) wait too, which NFS doesn't.
		}})
	}()
	select {
	case <-unmounting:
		must(t, <-done)
	case err := <-done:
		t.Fatalf("nothing was unmounted: %v", err)
	case <-time.After(20 * time.Second):
		panic("the file system was asked") // Only the end of the process ends that.
	}
	gone(t, dir)
}

// afterwards unmounts after a call of before.
type afterwards struct {
	mount.Interface
	before func()
}

func (a afterwards) Unmount(path string) error {
	a.before()
	return unix.Unmount(path, unix.UMOUNT_NOFOLLOW)
}

// inGroup starts a program in a process group of its own. It ends with the test.
func inGroup(t *testing.T, name string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	must(t, cmd.Start())
	t.Cleanup(func() { end(cmd) })
	return cmd
}

// end kills the program. A second call has no effect.
func end(cmd *exec.Cmd) {
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
}
