package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/podstream/podstream/internal/tunables"
)

// sysctl is a setting of the kernel.
type sysctl struct {
	name string
	// good reports whether a value needs no remark. want is the value that the kubelet sets.
	good func(int64) bool
	want int64
	// state and effect are what another value means.
	state  State
	effect string
}

// sysctls are the settings of package tunables. podexecd sets them when it starts, or requires them with
// protectKernelDefaults.
var sysctls = []sysctl{
	{"vm.panic_on_oom", func(v int64) bool { return v != 2 }, 0, Failed, "a container that needs more memory than its limit stops the whole machine"},
	{"vm.panic_on_oom", func(v int64) bool { return v != 1 }, 0, Warning, "a machine that is short of memory stops, where the kernel could end one container"},
	{"vm.overcommit_memory", func(v int64) bool { return v != 2 }, 1, Warning, "programs get no memory although there is some"},
	{"vm.overcommit_memory", func(v int64) bool { return v != 0 }, 1, Warning, "a large program may be unable to fork or to reserve memory, which it can on a kubelet's node"},
	{"kernel.panic", func(v int64) bool { return v != 0 }, 10, Warning, "after a panic the machine stands still, and its pods with it, in place of booting"},
	{"kernel.panic_on_oops", func(v int64) bool { return v != 0 }, 1, Warning, "a kernel with a fault in itself goes on, and pods may hang"},
	{"kernel.keys.root_maxkeys", func(v int64) bool { return v >= 1000000 }, 1000000, Warning, "each container has a keyring of root's: beyond that number none starts (\"disk quota exceeded\")"},
	{"kernel.keys.root_maxbytes", func(v int64) bool { return v >= 25000000 }, 25000000, Warning, "each container has a keyring of root's: beyond that size none starts (\"disk quota exceeded\")"},
}

// kernelSettings checks the kernel's settings.
func (e *examination) kernelSettings(context.Context) []Finding {
	found := e.protected()
	advice := "podexecd sets it when it starts, and its log has the reason if it can't"
	if !e.Podexec.Settings.TuneKernel {
		advice = "podexecd sets it when it starts, without --tune-kernel=false"
	}
	for _, s := range sysctls {
		value, ok := e.number("proc/sys/" + strings.ReplaceAll(s.name, ".", "/"))
		if !ok || s.good(value) || e.Podexec.Settings.ProtectKernelDefaults {
			continue
		}
		found = append(found, Finding{"kernel", s.state, fmt.Sprintf("%s=%d: %s", s.name, value, s.effect),
			fmt.Sprintf("sysctl -w %s=%d, and in /etc/sysctl.d; %s", s.name, s.want, advice)})
	}
	if e.tree().version == "v2" && e.olderThan(5, 8) {
		found = append(found, Finding{"kernel", Warning, "the kernel is " + e.text("proc/sys/kernel/osrelease") + ", and Kubernetes supports cgroup v2 from 5.8 on: limits may be missing",
			"install a newer kernel, or boot with cgroup v1"})
	}
	if f := e.kernelLog(); f != nil {
		found = append(found, *f)
	}
	if len(found) == 0 {
		found = []Finding{{"kernel", OK, strings.TrimSpace(e.text("proc/sys/kernel/osrelease") + " with the settings of a kubelet's node"), ""}}
	}
	return found
}

// kernelLog checks whether podexecd, which may be in a container, has the kernel's log.
func (e *examination) kernelLog() *Finding {
	if e.Podexec.PID == 0 {
		return nil
	}
	if _, err := os.Stat(e.path(fmt.Sprintf("proc/%d/root/dev/kmsg", e.Podexec.PID))); !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return &Finding{"kernel", Warning, "podexecd has no /dev/kmsg: the Node has no event SystemOOM when the machine is out of memory",
		"give its container the device, and the capability SYSLOG"}
}

// protected returns the settings with which podexecd refuses to start.
func (e *examination) protected() []Finding {
	if !e.Podexec.Settings.ProtectKernelDefaults {
		return nil
	}
	var found []Finding
	for _, d := range (tunables.Kernel{Root: e.Machine}).Differing() {
		found = append(found, Finding{"kernel", Failed, fmt.Sprintf("podexecd doesn't start (protectKernelDefaults): %v", d),
			fmt.Sprintf("sysctl -w %s=%d, and in /etc/sysctl.d; or set protectKernelDefaults: false, with which podexecd sets it", d.Name, d.Want)})
	}
	return found
}
