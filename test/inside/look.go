package inside

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
)

// Look returns the environment of this process, with the given files and all files below them.
func Look(paths ...string) *Report {
	l := &looker{Report: Report{
		Args: os.Args[1:], Env: map[string]string{}, UID: os.Getuid(), GID: os.Getgid(), Namespaces: map[string]string{}, Processes: map[int]string{},
		Interfaces: map[string][]string{}, Cgroup: map[string]string{}, Limits: map[string]string{}, Files: map[string]File{},
	}}
	for _, variable := range os.Environ() {
		name, value, _ := strings.Cut(variable, "=")
		l.Env[name] = value
	}
	var err error
	l.WorkingDir, err = os.Getwd()
	l.failed(err)
	l.Hostname, err = os.Hostname()
	l.failed(err)
	l.Groups, err = os.Getgroups()
	l.failed(err)
	l.UIDMap = strings.Join(strings.Fields(l.read("/proc/self/uid_map")), " ")
	l.status()
	l.Processors = runtime.NumCPU()
	l.OOMScoreAdj = l.number(l.read("/proc/self/oom_score_adj"))
	l.confinement()
	l.namespaces()
	l.processes()
	l.interfaces()
	l.mounts()
	l.cgroups()
	for _, path := range paths {
		l.walk(path)
	}
	return &l.Report
}

type looker struct{ Report }

func (l *looker) failed(err error) {
	if err != nil {
		l.Errors = append(l.Errors, err.Error())
	}
}

// read returns a file's text without surrounding space, or "".
func (l *looker) read(path string) string {
	text, err := os.ReadFile(path)
	l.failed(err)
	return string(bytes.TrimSpace(text))
}

func (l *looker) number(text string) int {
	n, err := strconv.Atoi(text)
	l.failed(err)
	return n
}

// status reads /proc/self/status.
func (l *looker) status() {
	for line := range strings.Lines(l.read("/proc/self/status")) {
		key, value, _ := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		switch key {
		case "CapEff":
			l.Effective = l.capabilities(value)
		case "CapBnd":
			l.Bounding = l.capabilities(value)
		case "NoNewPrivs":
			l.NoNewPrivs = value == "1"
		case "Seccomp":
			l.Seccomp = l.number(value)
		}
	}
}

// confinement reads the label that a security module gives the process. The form of the label shows which
// module it is.
func (l *looker) confinement() {
	label, err := os.ReadFile("/proc/self/attr/current")
	if err != nil {
		return // there is no such module
	}
	text := strings.Trim(string(label), "\x00\n ")
	if strings.Count(text, ":") >= 3 {
		l.SELinux = text
	} else {
		l.AppArmor = text
	}
}

func (l *looker) namespaces() {
	kinds, err := os.ReadDir("/proc/self/ns")
	l.failed(err)
	for _, kind := range kinds {
		id, err := os.Readlink("/proc/self/ns/" + kind.Name())
		l.failed(err)
		l.Namespaces[kind.Name()] = id
	}
}

func (l *looker) processes() {
	entries, err := os.ReadDir("/proc")
	l.failed(err)
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		// It may have ended meanwhile.
		if name, err := os.ReadFile("/proc/" + e.Name() + "/comm"); err == nil {
			l.Processes[pid] = string(bytes.TrimSpace(name))
		}
	}
}

func (l *looker) interfaces() {
	all, err := net.Interfaces()
	l.failed(err)
	for _, i := range all {
		addresses, err := i.Addrs()
		l.failed(err)
		l.Interfaces[i.Name] = []string{}
		for _, a := range addresses {
			l.Interfaces[i.Name] = append(l.Interfaces[i.Name], a.String())
		}
	}
}

func (l *looker) mounts() {
	scanner := bufio.NewScanner(strings.NewReader(l.read("/proc/self/mountinfo")))
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		mount, err := parseMount(scanner.Text())
		l.failed(err)
		if err == nil {
			l.Mounts = append(l.Mounts, mount)
		}
	}
	l.failed(scanner.Err())
}

// parseMount reads a line of /proc/PID/mountinfo.
func parseMount(line string) (Mount, error) {
	own, super, ok := strings.Cut(line, " - ")
	fields, superFields := strings.Fields(own), strings.Fields(super)
	if !ok || len(fields) < 6 || len(superFields) < 3 {
		return Mount{}, fmt.Errorf("mountinfo: %q isn't a mount", line)
	}
	var propagation []string
	for _, tag := range fields[6:] {
		name, _, _ := strings.Cut(tag, ":")
		if name != "propagate_from" {
			propagation = append(propagation, name)
		}
	}
	if propagation == nil {
		propagation = []string{"private"}
	}
	return Mount{
		Root: unescape.Replace(fields[3]), Point: unescape.Replace(fields[4]), Options: strings.Split(fields[5], ","),
		Propagation: strings.Join(propagation, ","), Type: superFields[0], Source: unescape.Replace(superFields[1]), Super: strings.Split(superFields[2], ","),
	}, nil
}

var unescape = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)

// limitFiles are the files of cgroups, of both versions, that are reported, by their controller.
var limitFiles = map[string][]string{
	"memory":  {"memory.limit_in_bytes", "memory.memsw.limit_in_bytes", "memory.max", "memory.min", "memory.low", "memory.high", "memory.swap.max"},
	"cpu":     {"cpu.shares", "cpu.cfs_quota_us", "cpu.cfs_period_us", "cpu.weight", "cpu.max"},
	"pids":    {"pids.max"},
	"hugetlb": {"hugetlb.2MB.limit_in_bytes", "hugetlb.1GB.limit_in_bytes", "hugetlb.2MB.max", "hugetlb.1GB.max"},
	"cpuset":  {"cpuset.cpus", "cpuset.cpus.effective"},
}

const cgroupDir = "/sys/fs/cgroup/"

// cgroups reads the limits of the process's cgroup: in a container it is mounted as the root.
func (l *looker) cgroups() {
	for line := range strings.Lines(l.read("/proc/self/cgroup")) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 {
			continue
		}
		for controller := range strings.SplitSeq(parts[1], ",") {
			l.Cgroup[controller] = parts[2]
		}
	}
	for controller, files := range limitFiles {
		for _, file := range files {
			for _, dir := range []string{
				cgroupDir + controller + l.Cgroup[controller], cgroupDir + controller, cgroupDir + l.Cgroup[""], cgroupDir,
			} {
				if text, err := os.ReadFile(filepath.Join(dir, file)); err == nil {
					l.Limits[file] = string(bytes.TrimSpace(text))
					break
				}
			}
		}
	}
}
