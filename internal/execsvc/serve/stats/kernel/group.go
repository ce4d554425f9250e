package kernel

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"
)

// Group reads the usage of the cgroup with that path. Brief is the CPU time, and memory with its limit and swap,
// from half a dozen files. The error is fs.ErrNotExist if the cgroup doesn't exist.
func (r *Reader) Group(path string, now time.Time, brief bool) (*Usage, error) {
	u := &Usage{At: now}
	read := r.groupV1
	if r.v2 {
		read = r.groupV2
	}
	if err := read(path, u, brief); err != nil {
		return nil, err
	}
	if u.Memory.Usage != nil && u.Memory.InactiveFile != nil {
		u.Memory.WorkingSet = new(less(*u.Memory.Usage, *u.Memory.InactiveFile))
	}
	return u, nil
}

// dir returns the cgroup's directory in the hierarchy of a controller; in version 2 one directory has all
// controllers.
func (r *Reader) dir(controller, path string) string {
	if r.v2 {
		controller = ""
	}
	return filepath.Join(r.root, "sys", "fs", "cgroup", controller, filepath.Join("/", path)) //nolint:gocritic // No path leads out.
}

// Children returns the names of the direct children of a cgroup.
func (r *Reader) Children(path string) ([]string, error) {
	dir, err := os.Open(r.dir("memory", path))
	if err != nil {
		return nil, err
	}
	defer func() { _ = dir.Close() }()
	entries, err := dir.ReadDir(-1)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	entries = slices.DeleteFunc(entries, func(e fs.DirEntry) bool { return !e.IsDir() })
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names, nil
}

// Own returns the path of this process's cgroup; empty if it has none of its own, or several in the hierarchies that
// are read.
func (r *Reader) Own() string {
	var own string
	_ = r.read(r.path("proc/self/cgroup"), func(data []byte) { own = parseOwn(data, r.v2) })
	return own
}

func parseOwn(data []byte, v2 bool) string {
	paths := map[string]bool{}
	for line := range bytes.Lines(data) {
		// As in 4:memory:/system.slice.
		fields := bytes.SplitN(bytes.TrimSpace(line), []byte{':'}, 3)
		if len(fields) < 3 {
			continue
		}
		for controller := range bytes.SplitSeq(fields[1], []byte{','}) {
			if v2 && len(controller) == 0 || !v2 && (string(controller) == "memory" || string(controller) == "cpuacct") {
				paths[string(fields[2])] = true
			}
		}
	}
	if len(paths) != 1 {
		return ""
	}
	for path := range paths {
		if path != "/" {
			return path
		}
	}
	return ""
}

// processes counts the cgroup's own processes.
func (r *Reader) processes(dir string, u *Usage) {
	_ = r.read(dir+"/cgroup.procs", func(data []byte) {
		var count uint64
		for line := range bytes.Lines(data) {
			n, ok := digits(bytes.TrimSpace(line))
			if ok {
				count++
			}
			// 0 is a process of another PID namespace.
			if u.PID == 0 && n < 1<<31 {
				u.PID = int(n)
			}
		}
		u.Processes = &count
	})
}

// parsePressure parses a .pressure file, whose times are microseconds; nil if there is none.
func parsePressure(data []byte) *Pressure {
	var p Pressure
	known := false
	for line := range bytes.Lines(data) {
		words := bytes.Fields(line)
		if len(words) < 2 {
			continue
		}
		var of *Stall
		switch string(words[0]) {
		case "some":
			of = &p.Some
		case "full":
			of = &p.Full
		default:
			continue
		}
		for _, word := range words[1:] {
			name, value, _ := bytes.Cut(word, []byte{'='})
			switch string(name) {
			case "avg10":
				of.Avg10 = average(value)
			case "avg60":
				of.Avg60 = average(value)
			case "avg300":
				of.Avg300 = average(value)
			case "total":
				var n uint64
				n, known = digits(value)
				of.Total = n * microsecond
			}
		}
	}
	if !known {
		return nil
	}
	return &p
}

// microsecond is in nanoseconds.
const microsecond = 1000

func average(text []byte) float64 {
	f, err := strconv.ParseFloat(string(text), 64)
	if err != nil || f < 0 || f > 100 {
		return 0
	}
	return f
}

func (r *Reader) pressure(name string) *Pressure {
	var p *Pressure
	// A kernel without it has no such file, or an unreadable one.
	_ = r.read(name, func(data []byte) { p = parsePressure(data) })
	return p
}
