package doctor

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// path returns the path of a file of the machine.
func (e *examination) path(name string) string { return filepath.Join(e.Machine, name) }

// text returns the content of a file of the machine; empty if it can't be read.
func (e *examination) text(name string) string {
	text, err := os.ReadFile(e.path(name))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

func (e *examination) exists(name string) bool {
	_, err := os.Stat(e.path(name))
	return err == nil
}

// number returns the number in a file of the machine, and whether there is one.
func (e *examination) number(name string) (int64, bool) {
	n, err := strconv.ParseInt(e.text(name), 10, 64)
	return n, err == nil
}

// mount is a line of a process's mountinfo.
type mount struct {
	// options are those of the file system, flags those of this mount of it.
	point, kind, options, flags string
	// group is its peer group, whose members receive the mounts made beneath it. master is the group that it receives
	// mounts from without passing its own on. Both are numbers, or empty.
	group, master string
}

// mounts returns the mounts that a process has: "self", or its ID.
func (e *examination) mounts(process string) []mount {
	var all []mount
	for line := range strings.Lines(e.text("proc/" + process + "/mountinfo")) {
		left, right, ok := strings.Cut(line, " - ")
		fields, system := strings.Fields(left), strings.Fields(right)
		if !ok || len(fields) < 6 || len(system) < 3 {
			continue
		}
		m := mount{point: unescape(fields[4]), kind: system[0], options: system[2], flags: fields[5]}
		for _, tag := range fields[6:] {
			if group, ok := strings.CutPrefix(tag, "shared:"); ok {
				m.group = group
			} else if master, ok := strings.CutPrefix(tag, "master:"); ok {
				m.master = master
			}
		}
		all = append(all, m)
	}
	return all
}

// unescape returns a path of mountinfo, in which the kernel writes some characters in octal.
func unescape(path string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(path)
}

// mountOf returns the mount that has the path. The last one of a path hides those before it.
func mountOf(mounts []mount, path string) (found mount, ok bool) {
	for _, m := range mounts {
		if beneath(m.point, path) && len(m.point) >= len(found.point) {
			found, ok = m, true
		}
	}
	return found, ok
}

// beneath reports whether the path is the directory or beneath it.
func beneath(dir, path string) bool {
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}

// kernel returns the kernel's version: 6 and 12 for 6.12.3. It is zero if it is unknown.
func (e *examination) kernel() (major, minor int) {
	parts := strings.SplitN(e.text("proc/sys/kernel/osrelease"), ".", 3)
	if len(parts) < 2 {
		return 0, 0
	}
	digits := func(text string) int {
		end := strings.IndexFunc(text, func(r rune) bool { return r < '0' || r > '9' })
		if end >= 0 {
			text = text[:end]
		}
		n, _ := strconv.Atoi(text) // No number is an unknown version.
		return n
	}
	return digits(parts[0]), digits(parts[1])
}

// olderThan reports whether the kernel is older than a version. One of unknown version isn't.
func (e *examination) olderThan(major, minor int) bool {
	have, haveMinor := e.kernel()
	return have != 0 && (have < major || have == major && haveMinor < minor)
}
