package doctor

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/podstream/podstream/internal/kubeletproc"
)

// process is a daemon's process, by its ID in /proc. Zero means that it isn't known.
type process struct {
	name string
	id   int
}

func (p process) file(name string) string { return fmt.Sprintf("proc/%d/%s", p.id, name) }

// units checks the processes of podexecd and of the runtime, and what systemd has for them.
func (e *examination) units(ctx context.Context) []Finding {
	podexecd, runtime := process{"podexecd", e.Podexec.PID}, process{"the runtime", 0}
	if path, local := strings.CutPrefix(e.Podexec.Settings.RuntimeEndpoint, "unix://"); local {
		runtime.id, _ = listener(path) // The check "runtime" reports that it doesn't answer.
	}
	found := e.kubelet(ctx)
	var known []string
	for _, p := range []process{podexecd, runtime} {
		if p.id == 0 || !e.exists(p.file("cgroup")) {
			continue
		}
		known = append(known, p.name)
		found = append(found, e.oomScore(p)...)
		found = append(found, e.tasks(p)...)
	}
	if runtime.id != 0 {
		found = append(found, e.runtimeUnit(runtime)...)
	}
	if podexecd.id != 0 && runtime.id != 0 {
		found = append(found, e.propagation(podexecd, runtime)...)
	}
	switch {
	case len(found) > 0:
		return found
	case len(known) == 0:
		return []Finding{{"processes", Skipped, "the processes of podexecd and of the runtime can't be found", ""}}
	}
	return []Finding{{"processes", OK, "out-of-memory score, processes, mounts and unit of " + strings.Join(known, " and ") + " are right", ""}}
}

// kubelet checks whether a kubelet runs beside podexecd.
func (e *examination) kubelet(ctx context.Context) []Finding {
	path, local := strings.CutPrefix(e.Podexec.Settings.RuntimeEndpoint, "unix://")
	if !local {
		path = ""
	}
	kubelet, err := kubeletproc.Search{Proc: e.path("proc"), Socket: path, Dir: e.kubeletDir(), Ports: e.Podexec.Settings.Ports()}.Find(ctx)
	if err != nil || kubelet == nil {
		return nil
	}
	return []Finding{{"processes", Failed, fmt.Sprintf("a kubelet runs beside podexecd: %s; %s; each removes the other one's containers", kubelet, kubelet.Why),
		"stop the kubelet and disable its unit, or stop podexecd"}}
}

// kubeletDir returns podexecd's --kubelet-dir as doctor finds it; empty if podexecd doesn't run: a kubelet may use it then.
func (e *examination) kubeletDir() string {
	if e.Podexec.PID == 0 {
		return ""
	}
	return e.path(e.Podexec.KubeletDir)
}

// oomScore checks whether a daemon may be killed before the pods.
func (e *examination) oomScore(p process) []Finding {
	score, ok := e.number(p.file("oom_score_adj"))
	if !ok || score < 0 {
		return nil
	}
	return []Finding{{"processes", Warning, fmt.Sprintf("%s has oom_score_adj %d: a node that is short of memory kills it before the pods that took the memory", p.name, score),
		"set OOMScoreAdjust=-999 in its unit, or as the init system has it"}}
}

// cgroupOf returns the cgroup that systemd put a process into, and its directory in the hierarchy that counts processes.
func (e *examination) cgroupOf(p process) (cgroup, dir string) {
	for line := range strings.Lines(e.text(p.file("cgroup"))) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) != 3 {
			continue
		}
		switch fields[1] {
		case "":
			if cgroup == "" {
				cgroup = fields[2]
			}
			if dir == "" {
				dir = filepath.Join(cgroupMount, fields[2])
			}
		case "name=systemd":
			cgroup = fields[2]
		case "pids":
			dir = filepath.Join(cgroupMount, "pids", fields[2])
		}
	}
	return cgroup, dir
}

// tasks checks whether a daemon's unit can have more processes.
func (e *examination) tasks(p process) []Finding {
	_, dir := e.cgroupOf(p)
	most, limited := e.number(filepath.Join(dir, "pids.max"))
	now, ok := e.number(filepath.Join(dir, "pids.current"))
	if !limited || !ok || most == 0 || 100*now/most < much {
		return nil
	}
	state := Warning
	if 100*now/most >= nearly {
		state = Failed
	}
	return []Finding{{"processes", state, fmt.Sprintf("%s's cgroup has %d of at most %d processes and threads: beyond that, no container starts", p.name, now, most),
		"set TasksMax=infinity in its unit"}}
}

// unitOf returns the unit of systemd that a process belongs to; empty if it is of none.
func (e *examination) unitOf(p process) string {
	cgroup, _ := e.cgroupOf(p)
	for part := range strings.SplitSeq(cgroup, "/") {
		if strings.HasSuffix(part, ".service") {
			return part
		}
	}
	return ""
}

// unitDirs are the directories of systemd's units. A file in an earlier one replaces one of its name in a later one.
var unitDirs = []string{
	"etc/systemd/system", "run/systemd/transient", "run/systemd/system", "usr/local/lib/systemd/system", "usr/lib/systemd/system", "lib/systemd/system",
}

// unitSettings returns the settings of a unit's section Service, with its drop-ins, and whether the unit has a file. The
// last value of a setting counts.
func (e *examination) unitSettings(unit string) (settings map[string]string, ok bool) {
	settings = map[string]string{}
	dropIns := map[string]string{} // paths by their names
	for _, dir := range slices.Backward(unitDirs) {
		for _, kind := range []string{"service.d", unit + ".d"} {
			files, _ := filepath.Glob(e.path(filepath.Join(dir, kind, "*.conf"))) // The only error is that of a bad pattern.
			for _, file := range files {
				dropIns[filepath.Base(file)] = file
			}
		}
	}
	for _, dir := range unitDirs {
		text, err := os.ReadFile(e.path(filepath.Join(dir, unit)))
		if err == nil {
			ok = true
			readUnit(string(text), settings)
			break
		}
	}
	for _, name := range slices.Sorted(maps.Keys(dropIns)) {
		if text, err := os.ReadFile(dropIns[name]); err == nil {
			readUnit(string(text), settings)
		}
	}
	return settings, ok
}

func readUnit(text string, settings map[string]string) {
	section := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		switch name, value, ok := strings.Cut(line, "="); {
		case strings.HasPrefix(line, "["):
			section = line
		case ok && section == "[Service]" && !strings.HasPrefix(line, "#") && !strings.HasPrefix(line, ";"):
			settings[strings.TrimSpace(name)] = strings.TrimSpace(value)
		}
	}
}

// runtimeUnit checks the runtime's unit.
func (e *examination) runtimeUnit(p process) []Finding {
	unit := e.unitOf(p)
	settings, ok := e.unitSettings(unit)
	if unit == "" || !ok {
		return nil
	}
	var found []Finding
	if mode := settings["KillMode"]; mode != "process" && mode != "none" {
		if mode == "" {
			mode = "control-group, the default"
		}
		found = append(found, Finding{"processes", Warning, fmt.Sprintf("%s has KillMode=%s: a restart of the runtime ends the shims of all containers, and so all pods restart", unit, mode),
			fmt.Sprintf("systemctl edit %s: [Service] KillMode=process", unit)})
	}
	delegated, err := strconv.ParseBool(strings.NewReplacer("yes", "true", "no", "false", "on", "true", "off", "false").Replace(settings["Delegate"]))
	// Pods with cgroups of their own have them elsewhere.
	if !e.Podexec.Settings.CgroupsPerQOS && (settings["Delegate"] == "" || err == nil && !delegated) {
		found = append(found, Finding{"processes", Warning,
			unit + " has no Delegate=yes, and pods have no cgroups of their own: systemd may change the cgroups, and so the limits, of containers",
			fmt.Sprintf("systemctl edit %s: [Service] Delegate=yes", unit)})
	}
	return found
}

// mountOptions are the settings of a unit that give it a mount namespace of its own.
var mountOptions = []string{
	"PrivateTmp", "PrivateDevices", "PrivateMounts", "ProtectSystem", "ProtectHome", "ProtectKernelTunables", "ProtectKernelModules", "ProtectKernelLogs",
	"ProtectControlGroups", "ReadWritePaths", "ReadOnlyPaths", "InaccessiblePaths", "BindPaths", "BindReadOnlyPaths", "TemporaryFileSystem", "MountFlags",
	"MountAPIVFS", "RootDirectory", "RootImage", "DynamicUser", "ProtectProc", "ProcSubset", "LogNamespace",
}

// propagation checks whether the runtime, and so the pods, receive the volumes that podexecd mounts.
func (e *examination) propagation(podexecd, runtime process) []Finding {
	ours, err := os.Readlink(e.path(podexecd.file("ns/mnt")))
	theirs, err2 := os.Readlink(e.path(runtime.file("ns/mnt")))
	if err != nil || err2 != nil {
		return nil
	}
	m, ok := mountOf(e.mounts(strconv.Itoa(podexecd.id)), e.Podexec.KubeletDir)
	if !ok {
		return nil
	}
	// A unit's own namespace has mounts that are shared, but with nothing outside of it.
	other, _ := mountOf(e.mounts(strconv.Itoa(runtime.id)), e.Podexec.KubeletDir)
	switch {
	case m.group != "" && (ours == theirs || m.group == other.group || m.group == other.master):
		return nil
	case ours == theirs:
		return []Finding{{"processes", Warning, fmt.Sprintf("the mount %s, with podexecd's volumes, isn't shared: pods with mountPropagation don't start, such as CSI drivers", m.point),
			"mount --make-rshared " + m.point + " at each boot; systemd does that by itself"}}
	}
	unit := e.unitOf(podexecd)
	settings, _ := e.unitSettings(unit)
	var causes []string
	for _, name := range mountOptions {
		if value := settings[name]; value != "" && value != "no" && value != "false" {
			causes = append(causes, name+"="+value)
		}
	}
	advice := fmt.Sprintf("give podexecd %s as a shared mount (docker: --volume %[1]s:%[1]s:rshared)", e.Podexec.KubeletDir)
	if len(causes) > 0 {
		advice = fmt.Sprintf("systemctl edit %s: take away %s", unit, strings.Join(causes, ", "))
	}
	return []Finding{{"processes", Failed,
		fmt.Sprintf("podexecd has a mount namespace of its own, and the mounts that it makes beneath %s don't reach the runtime: Secrets, tokens and volumes in memory are empty in the pods", m.point), advice}}
}
