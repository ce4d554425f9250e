package world

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/podstream/podstream/test/inside"
)

// defaultCapabilities are the capabilities of a container without a securityContext.
var defaultCapabilities = []string{
	"AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE", "NET_RAW", "SETFCAP", "SETGID", "SETPCAP",
	"SETUID", "SYS_CHROOT",
}

var capabilityRows = []row{
	{
		name: "capabilities as they are", spec: `{}`,
		check: func(r *inside.Report) error { return hasCapabilities(r, defaultCapabilities) },
	},
	{
		name: "capabilities added", spec: `{containers: [{name: main, securityContext: {capabilities: {add: [NET_ADMIN, SYS_TIME]}}}]}`,
		check: func(r *inside.Report) error {
			return hasCapabilities(r, append([]string{"NET_ADMIN", "SYS_TIME"}, defaultCapabilities...))
		},
	},
	{
		name: "capabilities dropped", spec: `{containers: [{name: main, securityContext: {capabilities: {drop: [NET_RAW, MKNOD]}}}]}`,
		check: func(r *inside.Report) error {
			return hasCapabilities(r, slices.DeleteFunc(slices.Clone(defaultCapabilities), func(c string) bool { return c == "NET_RAW" || c == "MKNOD" }))
		},
	},
	{
		name: "all capabilities dropped", spec: `{containers: [{name: main, securityContext: {capabilities: {drop: [ALL]}}}]}`,
		check: func(r *inside.Report) error { return hasCapabilities(r, nil) },
	},
	{
		name: "one capability of all", spec: `{containers: [{name: main, securityContext: {capabilities: {drop: [ALL], add: [NET_BIND_SERVICE]}}}]}`,
		check: func(r *inside.Report) error { return hasCapabilities(r, []string{"NET_BIND_SERVICE"}) },
	},
	{
		name: "all capabilities", spec: `{containers: [{name: main, securityContext: {capabilities: {add: [ALL]}}}]}`,
		check: func(r *inside.Report) error { return hasCapabilities(r, inside.Look().Bounding) },
	},
	{
		name: "who isn't root has no capabilities in effect", spec: `{securityContext: {runAsUser: 1000}}`,
		check: func(r *inside.Report) error {
			if len(r.Effective) > 0 {
				return fmt.Errorf("it has %v", r.Effective)
			}
			return same("bounding capabilities", r.Bounding, defaultCapabilities)
		},
	},
	{
		name: "privileged", spec: `{containers: [{name: main, securityContext: {privileged: true}}]}`,
		paths: []string{"/dev/kmsg"},
		check: func(r *inside.Report) error {
			if err := hasCapabilities(r, inside.Look().Bounding); err != nil {
				return err
			}
			switch {
			case r.Seccomp != 0 || r.NoNewPrivs:
				return fmt.Errorf("seccomp %d, no new privileges %v", r.Seccomp, r.NoNewPrivs)
			case r.Files["/dev/kmsg"].Kind != "device":
				return fmt.Errorf("the node's devices aren't there: /dev/kmsg is %+v", r.Files["/dev/kmsg"])
			case r.Mount("/proc/kcore") != nil || readOnly(r, "/sys"):
				return fmt.Errorf("/proc is masked or /sys is read-only: %+v", r.Mount("/sys"))
			}
			return nil
		},
	},
	{
		name: "not privileged", spec: `{containers: [{name: main, securityContext: {privileged: false}}]}`,
		paths: []string{"/dev/kmsg"},
		check: func(r *inside.Report) error {
			if r.Files["/dev/kmsg"].Kind != "missing" || !readOnly(r, "/sys") {
				return fmt.Errorf("/dev/kmsg is %+v, /sys is %+v", r.Files["/dev/kmsg"], r.Mount("/sys"))
			}
			return nil
		},
	},
	{
		name: "readOnlyRootFilesystem", spec: `
volumes: [{name: own, emptyDir: {}}]
containers:
- {name: closed, volumeMounts: [{name: own, mountPath: /own}], securityContext: {readOnlyRootFilesystem: true}}
- {name: open, volumeMounts: [{name: own, mountPath: /own}]}`,
		paths: []string{"/", "/own"},
		all: func(found map[string]*inside.Report) error {
			closed, open := found["closed"], found["open"]
			if !readOnly(closed, "/") || readOnly(open, "/") || closed.Files["/"].Writable || !open.Files["/"].Writable {
				return fmt.Errorf("/ is %+v and %+v", closed.Mount("/"), open.Mount("/"))
			}
			if !closed.Files["/own"].Writable {
				return fmt.Errorf("the volume isn't writable: %+v", closed.Files["/own"])
			}
			return nil
		},
	},
	{
		name: "allowPrivilegeEscalation", spec: `
containers:
- {name: never, securityContext: {allowPrivilegeEscalation: false}}
- {name: allowed, securityContext: {allowPrivilegeEscalation: true}}
- {name: unsaid}`,
		all: func(found map[string]*inside.Report) error {
			return same("no new privileges",
				[]bool{found["never"].NoNewPrivs, found["allowed"].NoNewPrivs, found["unsaid"].NoNewPrivs}, []bool{true, false, false})
		},
	},
}

// withoutGetgroups is a profile that forbids one system call, which each inspecting process makes.
const withoutGetgroups = `{"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [{"names": ["getgroups"], "action": "SCMP_ACT_ERRNO"}]}`

var seccompRows = []row{
	{
		name: "seccomp", spec: `
containers:
- {name: unsaid}
- {name: default, securityContext: {seccompProfile: {type: RuntimeDefault}}}
- {name: unconfined, securityContext: {seccompProfile: {type: Unconfined}}}`,
		all: seccompModes(map[string]int{"unsaid": 0, "default": 2, "unconfined": 0}),
	},
	{
		name: "seccomp of the pod", spec: `
securityContext: {seccompProfile: {type: RuntimeDefault}}
containers:
- {name: pods}
- {name: own, securityContext: {seccompProfile: {type: Unconfined}}}`,
		all: seccompModes(map[string]int{"pods": 2, "own": 0}),
	},
	{
		name: "seccomp profile of the node", spec: `{securityContext: {seccompProfile: {type: Localhost, localhostProfile: no/getgroups.json}}}`,
		prepare: func(t *testing.T, p *pod) {
			dir := p.b.Path("podexecd", "seccomp", "no")
			check(t, os.MkdirAll(dir, 0o755))
			check(t, os.WriteFile(filepath.Join(dir, "getgroups.json"), []byte(withoutGetgroups), 0o644))
		},
		check: func(r *inside.Report) error {
			reported := slices.ContainsFunc(r.Errors, func(e string) bool { return strings.Contains(e, "getgroups: operation not permitted") })
			if r.Seccomp != 2 || !reported {
				return fmt.Errorf("mode %d; what it couldn't do: %q", r.Seccomp, r.Errors)
			}
			return nil
		},
	},
	{
		name: "seccomp profile that the node has not", spec: `{securityContext: {seccompProfile: {type: Localhost, localhostProfile: none.json}}}`,
		status: waitsFor("main", "CreateContainerError", "none.json"),
	},
}

var securityModuleRows = []row{
	{
		name: "AppArmor that the node has not", without: appArmor, spec: `{securityContext: {appArmorProfile: {type: RuntimeDefault}}}`,
		status: refused("AppArmor", "Cannot enforce AppArmor: AppArmor is not enabled on the host"),
	},
	{
		name: "AppArmor", needs: appArmor, golden: "apparmor-runtime-default", spec: `{securityContext: {appArmorProfile: {type: RuntimeDefault}}}`,
		check: func(r *inside.Report) error {
			if !strings.HasPrefix(r.AppArmor, "cri-containerd.apparmor.d") {
				return fmt.Errorf("its profile is %q", r.AppArmor)
			}
			return nil
		},
	},
	{
		name: "SELinux", needs: seLinux, golden: "selinux", spec: `{securityContext: {seLinuxOptions: {type: spc_t, level: "s0:c1,c2"}}}`,
		check: func(r *inside.Report) error {
			if !strings.HasSuffix(r.SELinux, ":spc_t:s0:c1,c2") {
				return fmt.Errorf("its label is %q", r.SELinux)
			}
			return nil
		},
	},
	{
		name: "masked paths", spec: `{containers: [{name: main, securityContext: {procMount: Default}}]}`,
		paths: []string{"/proc/keys", "/proc/timer_list"},
		check: func(r *inside.Report) error {
			for _, path := range []string{"/proc/kcore", "/proc/keys", "/proc/timer_list", "/sys/firmware"} {
				if onNode(path) && r.Mount(path) == nil {
					return fmt.Errorf("%s isn't masked", path)
				}
			}
			for _, path := range []string{"/proc/sys", "/proc/irq", "/proc/bus"} {
				if onNode(path) && !readOnly(r, path) {
					return fmt.Errorf("%s is %+v", path, r.Mount(path))
				}
			}
			return same("what they hold", []string{r.Files["/proc/keys"].Content, r.Files["/proc/timer_list"].Content}, []string{"", ""})
		},
	},
	{
		name: "procMount Unmasked with the node's users", spec: `{containers: [{name: main, securityContext: {procMount: Unmasked}}]}`,
		refused: "needs a user namespace of its own",
	},
	{
		name: "procMount Unmasked", needs: userNamespaces, golden: "proc-mount-unmasked",
		spec: `{hostUsers: false, containers: [{name: main, securityContext: {procMount: Unmasked}}]}`,
		check: func(r *inside.Report) error {
			if m := r.Mount("/proc/kcore"); m != nil {
				return fmt.Errorf("/proc/kcore is %+v", m)
			}
			return nil
		},
	},
}

// hasCapabilities expects these to be the capabilities that root has, and that the process can get.
func hasCapabilities(r *inside.Report, capabilities []string) error {
	want := slices.Sorted(slices.Values(capabilities))
	if slices.Equal(r.Effective, want) && slices.Equal(r.Bounding, want) {
		return nil
	}
	return fmt.Errorf("it has %v\nand may get %v;\nwant %v", r.Effective, r.Bounding, want)
}

func readOnly(r *inside.Report, point string) bool {
	m := r.Mount(point)
	return m != nil && slices.Contains(m.Options, "ro")
}

// onNode reports whether the node has the file, because the files in /proc depend on the kernel.
func onNode(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// seccompModes expects these modes of the containers: 0 is none, 2 is a filter.
func seccompModes(want map[string]int) func(map[string]*inside.Report) error {
	return func(found map[string]*inside.Report) error {
		got := map[string]int{}
		for name, r := range found {
			got[name] = r.Seccomp
		}
		return same("seccomp modes", got, want)
	}
}
