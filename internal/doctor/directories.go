package doctor

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/podstream/podstream/internal/kubeletdir"
)

// directories checks --kubelet-dir, which CSI drivers and plugins mount, and the devices and programs that podexecd has for
// volumes.
func (e *examination) directories(context.Context) []Finding {
	dir, root, process := e.Podexec.KubeletDir, e.Machine, "self"
	if e.Podexec.PID != 0 {
		process = strconv.Itoa(e.Podexec.PID)
		if own := e.path("proc/" + process + "/root"); e.isDir(own) {
			root = own
		}
	}
	var found []Finding
	for _, p := range kubeletdir.Examine(root, dir) {
		state := Warning
		if p.Refused {
			state = Failed
		}
		found = append(found, Finding{"directories", state, p.Text, p.Advice})
	}
	if f := e.devices(); f != nil {
		found = append(found, *f)
	}
	found = append(found, e.noexec(process)...)
	tools := e.storageTools(root, process)
	if len(found) == 0 {
		found = []Finding{{"directories", OK, dir + " can have the sockets of CSI drivers and plugins, and only root can write to it", ""}}
	}
	return append(found, tools...)
}

// devices checks whether podexecd, which may be in a container, has the machine's /dev. A container's own one has the devices of
// its start only: those of a volume that is attached later are missing.
func (e *examination) devices() *Finding {
	var own, machine unix.Stat_t
	if e.Podexec.PID == 0 || unix.Stat(e.path(fmt.Sprintf("proc/%d/root/dev", e.Podexec.PID)), &own) != nil ||
		unix.Stat(e.path("proc/1/root/dev"), &machine) != nil || own.Dev == machine.Dev {
		return nil
	}
	return &Finding{
		"directories", Warning, "podexecd has a /dev of its own, without the devices that the machine gets later: block volumes can't be set up",
		"give its container the machine's (docker: --volume /dev:/dev), or take PrivateDevices= away from its unit",
	}
}

// isDir reports whether the path, outside of the machine's directory, is a directory.
func (e *examination) isDir(path string) bool {
	var stat unix.Stat_t
	return unix.Stat(filepath.Clean(path)+"/", &stat) == nil
}
