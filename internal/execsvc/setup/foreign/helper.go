package foreign

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	// programName is the helper's name, argument 0.
	programName = "podexecd-foreign"
	// commName is its name in the kernel's log and in ps: at most 15 bytes.
	commName = "podexecd-fs"
	// jobFlag is its first argument, with the kind of the job. A program that doesn't call Main refuses it as unknown.
	jobFlag = "--foreign-job="
	// dataFD is the descriptor of a job's stream.
	dataFD = 3
	// ownFDs has the process's descriptors.
	ownFDs = "/proc/self/fd"
)

// A helper does its job in the first thread of its process. If another one hung, the kernel would let the first one end with
// the kill, and the command line couldn't be read any more: the next start of podexecd wouldn't find the helper.
func init() {
	if isHelper() {
		runtime.LockOSThread()
	}
}

func isHelper() bool {
	return len(os.Args) >= 2 && os.Args[0] == programName && strings.HasPrefix(os.Args[1], jobFlag)
}

// Main does the job of a helper and ends the process, if this process is one. The main function calls it first.
func Main() {
	if !isHelper() {
		return
	}
	kind := strings.TrimPrefix(os.Args[1], jobFlag)
	closeInherited(kind == exportKind || kind == importKind)
	// The kernel names a task that hangs by this in its log.
	_ = os.WriteFile("/proc/self/comm", []byte(commName), 0)
	os.Exit(serve(os.Stdin, os.Stdout))
}

// closeInherited closes the descriptors that podexecd has got from its parent, but a job's stream. The others are those of Go's
// runtime.
func closeInherited(streamed bool) {
	fds, err := os.ReadDir(ownFDs)
	if err != nil {
		return
	}
	for _, entry := range fds {
		fd, err := strconv.Atoi(entry.Name())
		if err != nil || fd <= 2 || fd == dataFD && streamed {
			continue
		}
		to, err := os.Readlink(filepath.Join(ownFDs, entry.Name()))
		if err == nil && !strings.HasPrefix(to, "anon_inode:") && !strings.HasPrefix(to, "/sys/fs/cgroup/") {
			_ = unix.Close(fd)
		}
	}
}

// serve reads a job, does it, and writes the reply. It returns the exit code.
func serve(in io.Reader, out io.Writer) int {
	decoder := json.NewDecoder(io.LimitReader(in, maxJob))
	var job Job
	if err := decoder.Decode(&job); err != nil {
		return 2
	}
	go endWith(in)
	data, err := json.Marshal(attempt(context.Background(), &job))
	if err != nil {
		return 2
	}
	if _, err := out.Write(data); err != nil {
		return 1
	}
	return 0
}

// endWith ends the helper, and what it has started, when podexecd has ended.
func endWith(in io.Reader) {
	_, _ = io.Copy(io.Discard, in)
	_ = unix.Kill(0, unix.SIGKILL)
}

// attempt does the job. A panic is a failure too.
func attempt(ctx context.Context, job *Job) (r reply) {
	defer func() {
		if p := recover(); p != nil {
			r = reply{Failure: failureOf(fmt.Errorf("the helper failed: %v", p))}
		}
	}()
	answer, err := do(ctx, job)
	if err != nil {
		return reply{Failure: failureOf(err)}
	}
	return reply{Answer: answer}
}
