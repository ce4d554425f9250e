package foreign

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/mount-utils"

	"github.com/podstream/podstream/internal/execsvc/setup/foreign/tree"
	"github.com/podstream/podstream/internal/execsvc/setup/volume/subpath"
)

var (
	// ErrClosed is returned after Close.
	ErrClosed = errors.New("podexecd is stopping")
	// ErrNoAnswer is wrapped by the errors of jobs that didn't end in time, and of those that are refused as such jobs
	// still run.
	ErrNoAnswer = errors.New("the file system doesn't answer")

	// errLeft is the cause of the error of a mount whose helper has answered before what it had started has ended.
	errLeft = errors.New("what it has started hasn't ended")
)

// Error is a helper's answer that the job failed.
type Error struct {
	Text string
	// Errno is that of the system call that failed, or 0.
	Errno unix.Errno
	// Outside is set for a subPath that leads out of its volume.
	Outside bool
	// Unchanged is set if the job certainly has done nothing: nothing is mounted.
	Unchanged bool
	// Reason is set for some failures of jobs on claims' directories.
	Reason Reason
}

func (e *Error) Error() string { return e.Text }

// Unwrap returns the errno, and subpath.ErrOutside.
func (e *Error) Unwrap() []error {
	var all []error
	if e.Errno != 0 {
		all = append(all, e.Errno)
	}
	if e.Outside {
		all = append(all, subpath.ErrOutside)
	}
	return all
}

// AbandonedError is the error of a job that didn't end in time.
type AbandonedError struct {
	Volume string
	PID    int
	// Ended is set if the helper ended when it was killed. Otherwise it is in a system call that can't be interrupted.
	Ended bool
	After time.Duration
	Cause error
}

func (a *AbandonedError) Error() string {
	if a.Ended {
		return fmt.Sprintf("%v: the helper process %d for volume %s was ended after %s (%v); it is tried again",
			ErrNoAnswer, a.PID, a.Volume, a.After.Round(time.Millisecond), a.Cause)
	}
	return fmt.Sprintf("%v: the helper process %d for volume %s can't be ended after %s (%v), and is left until the file system answers; "+
		"it is tried again", ErrNoAnswer, a.PID, a.Volume, a.After.Round(time.Millisecond), a.Cause)
}

// Unwrap returns ErrNoAnswer and the cause.
func (a *AbandonedError) Unwrap() []error { return []error{ErrNoAnswer, a.Cause} }

// BusyError is the error of a job that isn't started, as too many others haven't ended.
type BusyError struct {
	// Volume is empty if the helpers of all volumes are too many.
	Volume string
	// PIDs are the helpers' processes, sorted.
	PIDs []int
	// Claims is set if the volume is a --volume-dir: it is no mount that could be forced to end.
	Claims bool
	// Target is set if the processes are those of an earlier mount at this path. They may still mount there, so a mount isn't begun, and
	// an unmount isn't complete. Of a block device it is its tag: they may still hold it.
	Target string
	// Unseen are the notes of such processes that can't be seen from podexecd's PID namespace. If there are no others, PIDs is empty.
	Unseen []string
}

func (b *BusyError) Error() string {
	pids := strings.Trim(fmt.Sprint(b.PIDs), "[]")
	if b.Volume == "" {
		return fmt.Sprintf("%v: %d helper processes for volumes haven't ended (%.200s); it is tried again, and no further one is started "+
			"before one of them ends", ErrNoAnswer, len(b.PIDs), pids)
	}
	mounts, other := "mount", "nothing else is mounted there, nor is the directory removed"
	if b.Target != "" && !filepath.IsAbs(b.Target) {
		mounts, other = "hold", "the device isn't published or released"
	}
	if b.Target != "" && len(b.PIDs) == 0 && len(b.Unseen) > 0 {
		return fmt.Sprintf("%v: an earlier %s of volume %s at %s may not have ended, and its process can't be seen from podexecd's container; "+
			"it is tried again, and %s: run podexecd with the machine's PID namespace "+
			"(hostPID, --pid=host), boot the machine, or, if that process has ended, remove its note %.500s",
			ErrNoAnswer, mounts, b.Volume, b.Target, other, strings.Join(b.Unseen, ", "))
	}
	if b.Target != "" {
		return fmt.Sprintf("%v: the processes %s of an earlier %s of volume %s at %s haven't ended, and may still %s it; it is tried again, "+
			"and %s, before they do", ErrNoAnswer, pids, mounts, b.Volume, b.Target, mounts, other)
	}
	if b.Claims {
		return fmt.Sprintf("%v: the helper processes %s for the claims in %s haven't ended; no further one is started before they do: "+
			"when the file system answers, or, if none of them is in state D, when they are done: try it again later", ErrNoAnswer, pids, b.Volume)
	}
	return fmt.Sprintf("%v: the helper processes %s for volume %s haven't ended; it is tried again, and no further one is started before "+
		"one of them ends: when the file system answers, or after umount -f", ErrNoAnswer, pids, b.Volume)
}

// Unwrap returns ErrNoAnswer.
func (b *BusyError) Unwrap() error { return ErrNoAnswer }

// IsCorrupted reports whether the error is one by which the kubelet recognizes a mount that must be made again: its
// server is gone (ENOTCONN, ESTALE, and so on).
func IsCorrupted(err error) bool {
	errno, ok := errors.AsType[unix.Errno](err)
	return ok && mount.IsCorruptedMnt(&os.PathError{Err: errno})
}

// IsUnchanged reports whether the job that failed with the error has certainly done nothing.
func IsUnchanged(err error) bool {
	if errors.Is(err, ErrClosed) {
		return true
	}
	if _, ok := errors.AsType[*BusyError](err); ok {
		return true
	}
	e, ok := errors.AsType[*Error](err)
	return ok && e.Unchanged
}

// failureOf returns the error as the helper sends it.
func failureOf(err error) *failure {
	f := &failure{Text: strings.ToValidUTF8(err.Error(), "?"), Outside: errors.Is(err, subpath.ErrOutside)}
	if len(f.Text) > maxText {
		f.Text = strings.ToValidUTF8(f.Text[:maxText], "") + "..."
	}
	if errno, ok := errors.AsType[unix.Errno](err); ok {
		f.Errno = int(errno)
	}
	if e, ok := errors.AsType[*Error](err); ok {
		f.Unchanged = e.Unchanged
	}
	f.Reason = reasonOf(err)
	return f
}

func reasonOf(err error) Reason {
	_, refused := errors.AsType[*tree.RefusedError](err)
	switch {
	case refused:
		return Refused
	case errors.Is(err, tree.ErrMissing):
		return Missing
	case errors.Is(err, tree.ErrMounted):
		return Mounted
	case errors.Is(err, tree.ErrNotEmpty):
		return NotEmpty
	case errors.Is(err, tree.ErrUnsynced):
		return Unsynced
	}
	return ""
}

// IsReason reports whether the error is a helper's, for that reason.
func IsReason(err error, r Reason) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Reason == r
}
