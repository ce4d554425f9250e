package kernel

import (
	"bytes"
	"io"
	"math"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Tasks are the processes and threads of a cgroup itself, by their files in /proc.
type Tasks struct {
	// Descriptors are the open files of all processes, and Sockets those of them that are sockets.
	Descriptors, Sockets uint64
	// OpenFiles is the soft limit of open files of the first process; nil if unknown.
	OpenFiles *uint64
	// The threads by state. Zombies and idle threads of the kernel aren't counted.
	Running, Sleeping, Stopped, Uninterruptible uint64
}

// Tasks reads the processes of a cgroup. It calls more before it looks at each file, and when that returns false, it
// returns what was counted until then: a pod has as many processes, threads and files as it likes. No file is opened
// that a pod could replace, and none waits for a process. It returns nil if the cgroup doesn't exist.
func (r *Reader) Tasks(path string, more func() bool) *Tasks {
	t := &Tasks{}
	var pids []string
	err := r.read(r.dir("memory", path)+"/cgroup.procs", func(data []byte) {
		for line := range bytes.Lines(data) {
			// 0 is a process of another PID namespace.
			if n, ok := digits(bytes.TrimSpace(line)); ok && n > 0 && n < math.MaxInt32 {
				pids = append(pids, strconv.FormatUint(n, 10))
			}
		}
	})
	if err != nil {
		return nil
	}
	for _, pid := range pids {
		if !more() {
			break
		}
		dir := r.path("proc/" + pid)
		if t.OpenFiles == nil {
			_ = r.read(dir+"/limits", func(data []byte) { t.OpenFiles = parseOpenFiles(data) })
		}
		t.descriptors(dir+"/fd", more)
		eachName(dir+"/task", more, func(thread string) {
			_ = r.read(dir+"/task/"+thread+"/stat", func(data []byte) { t.count(stateOf(data)) })
		})
	}
	return t
}

// descriptors counts the open files of one process.
func (t *Tasks) descriptors(dir string, more func() bool) {
	target := make([]byte, 8)
	eachName(dir, more, func(name string) {
		t.Descriptors++
		// The kernel shows a file by its absolute path, and a socket as socket:[12345]. The rest of the text isn't needed.
		if n, err := unix.Readlink(dir+"/"+name, target); err == nil && strings.HasPrefix(string(target[:n]), "socket:") {
			t.Sockets++
		}
	})
}

// eachName calls do with the names in a directory, while more returns true. It holds only some names at a time.
func eachName(dir string, more func() bool, do func(name string)) {
	const batch = 256
	d, err := os.Open(dir)
	if err != nil {
		// The process ended.
		return
	}
	defer func() { _ = d.Close() }()
	for {
		names, err := d.Readdirnames(batch)
		for _, name := range names {
			if !more() {
				return
			}
			do(name)
		}
		if err == io.EOF || err != nil || len(names) == 0 {
			return
		}
	}
}

// stateOf returns the state in a stat file, as in 42 (a name) S 1 …; 0: unknown. The name may contain anything.
func stateOf(data []byte) byte {
	end := bytes.LastIndexByte(data, ')')
	if end < 0 || end+2 >= len(data) {
		return 0
	}
	return data[end+2]
}

func (t *Tasks) count(state byte) {
	switch state {
	case 'R':
		t.Running++
	case 'S':
		t.Sleeping++
	case 'T', 't':
		t.Stopped++
	case 'D':
		t.Uninterruptible++
	}
}

// parseOpenFiles returns the soft limit in Max open files 1024 4096 files.
func parseOpenFiles(data []byte) *uint64 {
	for line := range bytes.Lines(data) {
		rest, found := bytes.CutPrefix(line, []byte("Max open files"))
		if words := bytes.Fields(rest); found && len(words) > 0 {
			if string(words[0]) == "unlimited" {
				return new(uint64(Unlimited))
			}
			return parseNumber(words[0])
		}
	}
	return nil
}
