package kernel

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/utils/cpuset"
)

// Identity has the machine's ID, system UUID and boot ID, its kernel's version and its operating system. Empty means
// unknown.
type Identity struct{ Machine, System, Boot, Kernel, OS string }

// Identity reads it.
func (r *Reader) Identity() Identity {
	first := func(names ...string) string {
		for _, name := range names {
			if data, err := os.ReadFile(r.path(name)); err == nil {
				if text := strings.Trim(string(data), "\x00 \n"); text != "" {
					return text
				}
			}
		}
		return ""
	}
	return Identity{
		Machine: first("etc/machine-id", "var/lib/dbus/machine-id"),
		System:  first("sys/class/dmi/id/product_uuid", "proc/device-tree/vm,uuid", "etc/machine-id"),
		Boot:    first("proc/sys/kernel/random/boot_id"),
		Kernel:  first("proc/sys/kernel/osrelease"),
		OS:      prettyName(first("etc/os-release", "usr/lib/os-release")),
	}
}

// prettyName returns the name of os-release for users.
func prettyName(release string) string {
	for line := range strings.Lines(release) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "PRETTY_NAME="); ok {
			return strings.Trim(name, `"'`)
		}
	}
	return ""
}

// Topology has the numbers of online CPUs, cores and sockets. 0 means unknown.
type Topology struct{ CPUs, Cores, Sockets int }

// Topology reads it.
func (r *Reader) Topology() Topology {
	dir := r.path("sys/devices/system/cpu")
	text := func(name string) string {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return ""
		}
		return strings.TrimSpace(string(data))
	}
	online, err := cpuset.Parse(text("online"))
	if err != nil {
		return Topology{}
	}
	cores, sockets := map[string]bool{}, map[string]bool{}
	for _, cpu := range online.List() {
		at := fmt.Sprintf("cpu%d/topology/", cpu)
		socket, core := text(at+"physical_package_id"), text(at+"core_id")
		if socket != "" && core != "" {
			sockets[socket], cores[socket+"/"+core] = true, true
		}
	}
	return Topology{CPUs: online.Size(), Cores: len(cores), Sockets: len(sockets)}
}
