package podexecd

import (
	"crypto/rand"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/cgroups"
	"github.com/opencontainers/cgroups/manager"
	"golang.org/x/sys/unix"

	"github.com/podstream/podstream/internal/execconfig"
	"github.com/podstream/podstream/internal/execsvc/decide/nodestatus"
	"github.com/podstream/podstream/internal/logtest"
	"github.com/podstream/podstream/internal/roottest"
	"github.com/podstream/podstream/internal/tunables"
)

// writeKernel writes the settings of a kernel: the kubelet's, except those that are given.
func writeKernel(t *testing.T, root string, changed map[string]string) {
	t.Helper()
	for _, tunable := range tunables.All() {
		value, ok := changed[tunable.Name]
		if !ok {
			value = fmt.Sprint(tunable.Want)
		}
		path := filepath.Join(root, "proc/sys", strings.ReplaceAll(tunable.Name, ".", "/"))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(value+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestTuneKernel(t *testing.T) {
	roottest.Need(t, "mounting")
	wrong := map[string]string{"vm.panic_on_oom": "2", "kernel.panic": "0", "kernel.keys.root_maxkeys": "200"}
	for name, c := range map[string]struct {
		host     execconfig.Host
		readOnly bool
		changed  map[string]string
		// fails and logged are parts of the error and of the log; left is what still differs.
		fails, logged []string
		left          int
	}{
		"all are set": {
			execconfig.Host{TuneKernel: true}, false, wrong, nil,
			[]string{`level=INFO msg="set a setting of the kernel" setting=kernel.panic was=0 is=10`, "vm.panic_on_oom was=2 is=0"}, 0,
		},
		"none is wrong":              {execconfig.Host{TuneKernel: true}, true, nil, nil, nil, 0},
		"none is wrong with protect": {execconfig.Host{TuneKernel: true, ProtectKernelDefaults: true}, true, nil, nil, nil, 0},
		"protected": {
			execconfig.Host{TuneKernel: true, ProtectKernelDefaults: true}, false, wrong, []string{
				"--protect-kernel-defaults: ", "invalid kernel flag: vm.panic_on_oom, expected value: 0, actual value: 2",
				"invalid kernel flag: kernel.panic, expected value: 10, actual value: 0", "invalid kernel flag: kernel.keys.root_maxkeys, expected value: 1000000",
			}, nil, 3,
		},
		"protected without tuning": {execconfig.Host{ProtectKernelDefaults: true}, false, wrong, []string{"kernel.panic"}, nil, 3},
		"not tuned":                {execconfig.Host{}, false, wrong, nil, []string{"level=INFO", "--tune-kernel=false", "setting=vm.panic_on_oom is=2 want=0"}, 3},
		"in a container": {
			execconfig.Host{TuneKernel: true}, true, wrong, nil,
			[]string{"level=WARN", "can't be set", "setting=kernel.panic is=0 want=10", "read-only file system"}, 3,
		},
		"unreadable": {
			execconfig.Host{TuneKernel: true}, false, map[string]string{"kernel.panic": "soon"}, nil, []string{"level=WARN", "is unknown", "setting=kernel.panic want=10"}, 1,
		},
		"unreadable and protected": {
			execconfig.Host{ProtectKernelDefaults: true}, false, map[string]string{"kernel.panic": "soon"}, []string{"kernel flag kernel.panic can't be read"}, nil, 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			if err := unix.Mount("tmpfs", root, "tmpfs", 0, ""); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := unix.Unmount(root, 0); err != nil {
					t.Error(err)
				}
			})
			writeKernel(t, root, c.changed)
			if c.readOnly {
				if err := unix.Mount("", root, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
					t.Fatal(err)
				}
			}
			var log logtest.Buffer
			kernel := tunables.Kernel{Root: root}
			err := tuneKernel(&execconfig.Settings{Host: c.host}, kernel, slog.New(slog.NewTextHandler(&log, nil)))
			if (err != nil) != (c.fails != nil) {
				t.Errorf("the error is %v; want %q", err, c.fails)
			}
			for _, part := range c.fails {
				if err != nil && !strings.Contains(err.Error(), part) {
					t.Errorf("the error %v has no %q", err, part)
				}
			}
			for _, part := range c.logged {
				if !strings.Contains(log.String(), part) {
					t.Errorf("the log has no %q:\n%s", part, log.String())
				}
			}
			if c.logged == nil && log.String() != "" {
				t.Errorf("the log has\n%s", log.String())
			}
			if left := kernel.Differing(); len(left) != c.left {
				t.Errorf("after that, there differ %v; want %d", left, c.left)
			}
		})
	}
}

func TestCheckSwap(t *testing.T) {
	const head, device = "Filename\tType\tSize\tUsed\tPriority\n", "/dev/sda2 partition 8 0 -2\n"
	const refuses = "running with swap on is not supported, please disable swap or set --fail-swap-on flag to false: /proc/swaps has /dev/sda2"
	for name, c := range map[string]struct {
		swaps string
		fail  bool
		want  string
	}{
		"on":               {head + device, true, refuses},
		"on, and accepted": {head + device, false, ""},
		"off":              {head, true, ""},
	} {
		root := t.TempDir()
		if err := os.MkdirAll(filepath.Join(root, "proc"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, "proc/swaps"), []byte(c.swaps), 0o600); err != nil {
			t.Fatal(err)
		}
		err := checkSwap(&execconfig.Settings{Host: execconfig.Host{FailSwapOn: c.fail}}, root, slog.New(slog.DiscardHandler))
		if got := fmt.Sprint(err); c.want == "" && err != nil || c.want != "" && got != c.want {
			t.Errorf("%s: %v; want %q", name, err, c.want)
		}
	}
}

// Each event has the kubelet's words. The first failure ends it.
func TestEnforceReserved(t *testing.T) {
	roottest.Need(t, "creating cgroups")
	name := "/podstream-test-" + rand.Text()
	m, err := manager.New(&cgroups.Cgroup{Path: name, Resources: &cgroups.Resources{SkipDevices: true}})
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Apply(-1); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Destroy(); err != nil {
			t.Error(err)
		}
	})
	amounts := map[string]string{"cpu": "100m", "memory": "64Mi"}
	s := &execconfig.Settings{
		Node: execconfig.Node{KubeReserved: amounts, SystemReserved: amounts},
		Host: execconfig.Host{KubeReservedCgroup: name, SystemReservedCgroup: name},
	}
	enforce := func(where ...string) (list []nodestatus.Event, err error) {
		s.EnforceNodeAllocatable = where
		err = enforceReserved(s, "cgroupfs", func(e nodestatus.Event) { list = append(list, e) }, slog.New(slog.DiscardHandler))
		return list, err
	}
	event := func(message string) nodestatus.Event {
		return nodestatus.Event{Type: "Normal", Reason: "NodeAllocatableEnforced", Message: message}
	}
	system, kube := event("Updated limits on system reserved cgroup "+name), event("Updated limits on kube reserved cgroup "+name)
	for _, c := range []struct {
		where []string
		want  []nodestatus.Event
	}{
		{[]string{"pods"}, nil},
		{[]string{"none"}, nil},
		{[]string{"kube-reserved", "pods", "system-reserved"}, []nodestatus.Event{system, kube}},
		{[]string{"kube-reserved-compressible", "system-reserved-compressible"}, []nodestatus.Event{system, kube}},
		{[]string{"kube-reserved"}, []nodestatus.Event{kube}},
	} {
		got, err := enforce(c.where...)
		if err != nil {
			t.Errorf("%v: %v", c.where, err)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%v (-want +got):\n%s", c.where, diff)
		}
	}
	s.CgroupRoot = name
	if got, err := enforce("kube-reserved"); err == nil || !strings.Contains(err.Error(), "of all pods") || len(got) != 1 || got[0].Type != "Warning" {
		t.Errorf("the cgroup that has those of the pods: %v, %v", got, err)
	}
	s.CgroupRoot = "/"
	s.SystemReservedCgroup += "-missing"
	for where, says := range map[string]string{
		"system-reserved":              `Failed to enforce System Reserved Cgroup Limits on "` + name + `-missing": cgroup "`,
		"system-reserved-compressible": `Failed to enforce System Reserved Compressible Cgroup Limits on "` + name + `-missing": `,
	} {
		got, err := enforce("kube-reserved", where)
		// The order is the kubelet's: kube-reserved comes before what is compressible.
		if err == nil || len(got) == 0 || got[len(got)-1].Message != err.Error() || !strings.Contains(strings.ReplaceAll(err.Error(), "could not read controllers for ", ""), says) {
			t.Fatalf("%s: %v, %v; want an event and an error with %q", where, got, err, says)
		}
		if last := got[len(got)-1]; last.Type != "Warning" || last.Reason != "FailedNodeAllocatableEnforcement" {
			t.Errorf("%s: the event is %+v", where, last)
		}
	}
}

func TestPodsLimited(t *testing.T) {
	var got []nodestatus.Event
	report := podsLimited("/kubepods", func(e nodestatus.Event) { got = append(got, e) })
	report(os.ErrDeadlineExceeded)
	report(nil)
	want := []nodestatus.Event{
		{Type: "Warning", Reason: "FailedNodeAllocatableEnforcement", Message: `Failed to update Node Allocatable Limits "/kubepods": i/o timeout`},
		{Type: "Normal", Reason: "NodeAllocatableEnforced", Message: "Updated Node Allocatable limit across pods"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
