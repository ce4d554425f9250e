package nodediff

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"

	"github.com/podstream/podstream/test/cridiff"
)

// Machine is the guest, which is all the tests' own.
type Machine struct {
	// slices are slices that were made.
	slices []string
	// hidden is set while HideCgroups is in effect.
	hidden bool
}

// cgroups is where the kernel's cgroups are.
const cgroups = "/sys/fs/cgroup"

// tunables are the kernel's settings that an agent sets, with their values when an agent starts.
var tunables = map[string]string{
	"vm.overcommit_memory": "0", "vm.panic_on_oom": "0", "kernel.panic": "0", "kernel.panic_on_oops": "0",
	"kernel.keys.root_maxkeys": "200", "kernel.keys.root_maxbytes": "20000",
}

func sysctlFile(name string) string { return "/proc/sys/" + strings.ReplaceAll(name, ".", "/") }

// SetSysctl sets a sysctl.
func (*Machine) SetSysctl(name, value string) error {
	return os.WriteFile(sysctlFile(name), []byte(value), 0)
}

// SwapOn enables the guest's swap.
func (*Machine) SwapOn() error { return run("swapon", "LABEL=swap") }

// HideCgroups makes the machine look as one with cgroup v1 to a process that starts: another file system is in the
// place of version 2's.
func (m *Machine) HideCgroups() error {
	m.hidden = true
	return run("mount", "-t", "tmpfs", "none", cgroups)
}

// MakeSlice makes a slice of systemd with all controllers.
func (m *Machine) MakeSlice(name string) error {
	unit := "[Slice]\nCPUAccounting=yes\nMemoryAccounting=yes\nTasksAccounting=yes\nIOAccounting=yes\n"
	m.slices = append(m.slices, name)
	return errors.Join(os.WriteFile("/run/systemd/system/"+name, []byte(unit), 0o644), run("systemctl", "daemon-reload"), run("systemctl", "start", name))
}

// reset makes the machine what it was.
func (m *Machine) reset() error {
	var errs []error
	if m.hidden {
		errs = append(errs, run("umount", cgroups))
		m.hidden = false
	}
	errs = append(errs, run("swapoff", "--all"), cridiff.ClearSlices())
	for name, value := range tunables {
		errs = append(errs, m.SetSysctl(name, value))
	}
	for _, slice := range m.slices {
		errs = append(errs, run("systemctl", "stop", slice), run("systemctl", "revert", slice), remove("/run/systemd/system/"+slice),
			os.RemoveAll("/run/systemd/system.control/"+slice+".d"))
	}
	if len(m.slices) > 0 {
		errs = append(errs, run("systemctl", "daemon-reload"))
	}
	m.slices = nil
	return errors.Join(errs...)
}

func remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func run(command string, args ...string) error {
	if out, err := exec.Command(command, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w: %s", command, strings.Join(args, " "), err, out)
	}
	return nil
}

// sysctls returns the tunables.
func (*Machine) sysctls() (Fields, error) {
	found := Fields{}
	for name := range tunables {
		text, err := os.ReadFile(sysctlFile(name))
		if err != nil {
			return nil, err
		}
		found[name] = strings.TrimSpace(string(text))
	}
	return found, nil
}

// openFiles matches the limit of open files in /proc/PID/limits.
var openFiles = regexp.MustCompile(`^Max open files +(\S+) +(\S+)`)

// process returns what the kernel has of a process.
func (*Machine) process(pid int) (Fields, error) {
	dir := fmt.Sprintf("/proc/%d/", pid)
	score, err := os.ReadFile(dir + "oom_score_adj")
	if err != nil {
		return nil, err
	}
	found := Fields{"oom_score_adj": strings.TrimSpace(string(score))}
	file, err := os.Open(dir + "limits")
	if err != nil {
		return nil, err
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		if match := openFiles.FindStringSubmatch(lines.Text()); match != nil {
			found["nofile.soft"], found["nofile.hard"] = match[1], match[2]
		}
	}
	return found, lines.Err()
}

// limits are the files of cgroups that agents write.
var limits = regexp.MustCompile(`^(cpu\.(max|weight)|cpuset\.cpus|pids\.max|io\.weight|memory\.(max|high|min|low|swap\.max|oom\.group)|hugetlb\..*\.max)$`)

// limitsOf returns the limits of the cgroups, and of those below them, but not those of containers.
func (*Machine) limitsOf(roots ...string) (Fields, error) {
	found := Fields{}
	for _, root := range roots {
		err := filepath.WalkDir(filepath.Join(cgroups, root), func(path string, entry fs.DirEntry, err error) error {
			switch {
			case gone(err):
				return nil
			case err != nil:
				return err
			case entry.IsDir() && strings.HasSuffix(path, ".scope"):
				return fs.SkipDir
			case !limits.MatchString(entry.Name()):
				return nil
			}
			text, err := os.ReadFile(path)
			if err == nil {
				found[strings.TrimPrefix(path, cgroups+"/")] = strings.TrimSpace(string(text))
			}
			if gone(err) {
				return nil
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return found, nil
}

// gone reports whether a cgroup doesn't exist, or went away while it was read.
func gone(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENODEV) }
