package nodeinfo

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
)

// newMachine writes the files of a machine and returns its root.
func newMachine(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, content := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// files are those of a machine that has everything.
func files() map[string]string {
	return map[string]string{
		"sys/devices/system/cpu/online": "0-2,5\n",
		"proc/meminfo":                  "MemTotal:        4194304 kB\nMemFree: 1 kB\nSwapTotal:       1024 kB\n",
		"sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages":    "256\n",
		"sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages": "0\n",
		"etc/machine-id":                         "cafe\n",
		"sys/class/dmi/id/product_uuid":          "dead-beef\n",
		"proc/sys/kernel/random/boot_id":         "b007\n",
		"proc/sys/kernel/osrelease":              "6.1.0-9-amd64\n",
		"proc/self/uid_map":                      "         0          0 4294967295\n",
		"etc/os-release":                         "NAME=\"Debian\"\nPRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\n",
		"sys/fs/cgroup/cgroup.controllers":       "cpu memory\n",
		"sys/kernel/security/apparmor/profiles":  "",
		"sys/module/apparmor/parameters/enabled": "Y\n",
	}
}

// strs are a list's quantities as text: the same amount has many forms.
func strs(list v1.ResourceList) map[string]string {
	out := map[string]string{}
	for name, q := range list {
		out[string(name)] = q.String()
	}
	return out
}

func TestReadReportsWhatTheMachineHas(t *testing.T) {
	got, err := Read(Settings{
		Machine: newMachine(t, files()), Hostname: "n1", Labels: map[string]string{"disk": "ssd", v1.LabelArchStable: "other"},
		MaxPods: 50, PodsPerCore: 10, EvictionHard: map[string]string{},
	})
	if err != nil {
		t.Fatal(err)
	}
	capacity := map[string]string{"cpu": "4", "memory": "4Gi", "pods": "40", "hugepages-2Mi": "512Mi", "hugepages-1Gi": "0"}
	if diff := cmp.Diff(capacity, strs(got.Capacity)); diff != "" {
		t.Errorf("capacity (-want +got):\n%s", diff)
	}
	allocatable := map[string]string{"cpu": "4", "memory": "3584Mi", "pods": "40", "hugepages-2Mi": "512Mi", "hugepages-1Gi": "0"}
	if diff := cmp.Diff(allocatable, strs(got.Allocatable)); diff != "" {
		t.Errorf("allocatable (-want +got):\n%s", diff)
	}
	system := v1.NodeSystemInfo{
		MachineID: "cafe", SystemUUID: "dead-beef", BootID: "b007", KernelVersion: "6.1.0-9-amd64", OSImage: "Debian GNU/Linux 12 (bookworm)",
		OperatingSystem: "linux", Architecture: runtime.GOARCH, Swap: &v1.NodeSwapStatus{Capacity: ptr.To[int64](1 << 20)},
		RunningInUserNamespace: ptr.To(false),
	}
	if diff := cmp.Diff(system, got.System); diff != "" {
		t.Errorf("system (-want +got):\n%s", diff)
	}
	labels := map[string]string{
		"kubernetes.io/hostname": "n1", "kubernetes.io/os": "linux", "kubernetes.io/arch": "other", "disk": "ssd",
		"beta.kubernetes.io/os": "linux", "beta.kubernetes.io/arch": runtime.GOARCH,
	}
	if diff := cmp.Diff(labels, got.Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	if !got.CgroupV2 || got.NoCPUQuota || !got.AppArmor || got.SwapCapacity() != 1<<20 {
		t.Errorf("cgroup v2 %v, AppArmor %v, swap %d", got.CgroupV2, got.AppArmor, got.SwapCapacity())
	}
	if diff := cmp.Diff([]int64{2 << 20, 1 << 30}, got.HugePageSizes()); diff != "" {
		t.Errorf("sizes of huge pages (-want +got):\n%s", diff)
	}
}

// Resources that a machine lacks are left out.
func TestReadOfABareMachine(t *testing.T) {
	all := files()
	bare := map[string]string{
		"sys/devices/system/cpu/online": "0", "proc/meminfo": all["proc/meminfo"][:strings.Index(all["proc/meminfo"], "Swap")],
		"sys/fs/cgroup/unified/cgroup.controllers": "", "sys/module/apparmor/parameters/enabled": "Y",
		"etc/machine-id": "cafe",
	}
	got, err := Read(Settings{Machine: newMachine(t, bare), EvictionHard: map[string]string{}})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"cpu": "1", "memory": "4Gi", "pods": "110"}, strs(got.Allocatable)); diff != "" {
		t.Errorf("allocatable (-want +got):\n%s", diff)
	}
	system := v1.NodeSystemInfo{
		MachineID: "cafe", SystemUUID: "cafe", OSImage: "Linux", OperatingSystem: "linux", Architecture: runtime.GOARCH,
		RunningInUserNamespace: ptr.To(false),
	}
	if diff := cmp.Diff(system, got.System); diff != "" {
		t.Errorf("system (-want +got):\n%s", diff)
	}
	if got.CgroupV2 || !got.NoCPUQuota || got.AppArmor || got.SwapCapacity() != 0 || got.HugePageSizes() != nil || got.Labels[v1.LabelHostname] != "" {
		t.Errorf("the bare machine has %+v", got)
	}
}

func TestReadFailsWithoutCapacity(t *testing.T) {
	for name, broken := range map[string]string{
		"sys/devices/system/cpu/online": "many",
		"proc/meminfo":                  "MemFree: 1 kB\n",
		"sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages": "few",
	} {
		all := files()
		all[name] = broken
		if _, err := Read(Settings{Machine: newMachine(t, all)}); err == nil {
			t.Errorf("%s with %q: no error", name, broken)
		}
		if strings.Contains(name, "hugepages") {
			continue
		}
		delete(all, name)
		if _, err := Read(Settings{Machine: newMachine(t, all)}); err == nil {
			t.Errorf("without %s: no error", name)
		}
	}
	if _, err := Read(Settings{Machine: newMachine(t, files()), RootDir: "/no/such/directory"}); err == nil {
		t.Error("with a RootDir that isn't there: no error")
	}
}

// The machine that the test runs on, compared with other sources.
func TestReadThisMachine(t *testing.T) {
	dir := t.TempDir()
	got, err := Read(Settings{RootDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	var fs unix.Statfs_t
	var info unix.Sysinfo_t
	if err := unix.Statfs(dir, &fs); err != nil {
		t.Fatal(err)
	}
	if err := unix.Sysinfo(&info); err != nil {
		t.Fatal(err)
	}
	if size := got.Capacity.StorageEphemeral().Value(); size != int64(fs.Blocks)*fs.Frsize {
		t.Errorf("ephemeral storage %d; want %d", size, int64(fs.Blocks)*fs.Frsize)
	}
	if memory := got.Capacity.Memory().Value(); memory != int64(info.Totalram)*int64(info.Unit) {
		t.Errorf("memory %d; want %d", memory, int64(info.Totalram)*int64(info.Unit))
	}
	if cpus := got.Capacity.Cpu().Value(); cpus < int64(runtime.NumCPU()) {
		t.Errorf("%d processors; this process alone may use %d", cpus, runtime.NumCPU())
	}
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		t.Fatal(err)
	}
	if kernel := unix.ByteSliceToString(name.Release[:]); got.System.KernelVersion != kernel {
		t.Errorf("kernel %q; want %q", got.System.KernelVersion, kernel)
	}
	if got.System.BootID == "" {
		t.Error("no boot id")
	}
}

func TestAllocatable(t *testing.T) {
	capacity := v1.ResourceList{
		"cpu": resource.MustParse("4"), "memory": resource.MustParse("8Gi"), "ephemeral-storage": resource.MustParse("100Gi"),
		"pods": resource.MustParse("110"), "hugepages-2Mi": resource.MustParse("1Gi"),
	}
	for name, c := range map[string]struct {
		s    Settings
		want map[string]string
		// bound is the memory that pods are held to.
		bound string
	}{
		"the kubelet's defaults": {Settings{}, map[string]string{"cpu": "4", "memory": "7068Mi", "ephemeral-storage": "90Gi"}, "8Gi"},
		"reserved twice": {
			Settings{
				KubeReserved:   map[string]string{"cpu": "100m", "memory": "1Gi", "pid": "1000"},
				SystemReserved: map[string]string{"cpu": "400m", "ephemeral-storage": "10Gi"}, EvictionHard: map[string]string{},
			},
			map[string]string{"cpu": "3500m", "memory": "6Gi", "ephemeral-storage": "90Gi"}, "7Gi",
		},
		"thresholds": {
			Settings{EvictionHard: map[string]string{"memory.available": "25%", "nodefs.available": "1Gi", "imagefs.available": "50%"}},
			map[string]string{"cpu": "4", "memory": "5Gi", "ephemeral-storage": "99Gi"}, "8Gi",
		},
		"shares that mean nothing": {
			Settings{EvictionHard: map[string]string{"memory.available": "100%", "nodefs.available": "0%"}},
			map[string]string{"cpu": "4", "memory": "7Gi", "ephemeral-storage": "100Gi"}, "8Gi",
		},
		"more huge pages than what is left": {
			Settings{SystemReserved: map[string]string{"memory": "7900Mi"}, EvictionHard: map[string]string{}},
			map[string]string{"cpu": "4", "memory": "0", "ephemeral-storage": "100Gi"}, "292Mi",
		},
	} {
		got, bound, err := allocatable(capacity, c.s)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		c.want["pods"], c.want["hugepages-2Mi"] = "110", "1Gi"
		if diff := cmp.Diff(c.want, strs(got)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if got := bound.Memory().String(); got != c.bound {
			t.Errorf("%s: pods are held to %s; want %s", name, got, c.bound)
		}
	}
	if q := capacity["memory"]; q.String() != "8Gi" {
		t.Errorf("the capacity has become %s", q.String())
	}
}

func TestAllocatableRefusesWhatCantBeMeant(t *testing.T) {
	capacity := v1.ResourceList{"cpu": resource.MustParse("1"), "memory": resource.MustParse("1Gi")}
	for name, c := range map[string]struct {
		s    Settings
		says string
	}{
		"not a resource": {Settings{KubeReserved: map[string]string{"pods": "1"}}, "kubeReserved: pods"},
		"not a quantity": {Settings{SystemReserved: map[string]string{"cpu": "two"}}, "systemReserved.cpu"},
		"negative":       {Settings{SystemReserved: map[string]string{"cpu": "-1"}}, "systemReserved.cpu"},
		"too much": {
			Settings{KubeReserved: map[string]string{"cpu": "600m"}, SystemReserved: map[string]string{"cpu": "600m"}}, "1200m is reserved",
		},
		"not a threshold": {Settings{EvictionHard: map[string]string{"memory.available": "some"}}, "evictionHard[memory.available]"},
		"no threshold":    {Settings{EvictionHard: map[string]string{"memory.available": "0"}}, "more than nothing"},
		"above 100%":      {Settings{EvictionHard: map[string]string{"memory.available": "101%"}}, "0% to 100%"},
		"not a number":    {Settings{EvictionHard: map[string]string{"nodefs.available": "NaN%"}}, "0% to 100%"},
	} {
		if _, _, err := allocatable(capacity, c.s); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: error %v; want one that says %q", name, err, c.says)
		}
	}
}

// The Node reports whether this process is in a user namespace: whether an ID stands for another one of the machine, or
// for none.
func TestUserNamespace(t *testing.T) {
	for ids, want := range map[string]bool{
		"0 0 4294967295\n": false, "0 100000 65536\n": true, "0 0 65536\n": true, "0 0 1000\n1000 1000 4294966295\n": true, "": true,
	} {
		all := files()
		all["proc/self/uid_map"] = ids
		got, err := Read(Settings{Machine: newMachine(t, all)})
		if err != nil {
			t.Fatal(err)
		}
		if in := got.System.RunningInUserNamespace; in == nil || *in != want {
			t.Errorf("%q: %v; want %t", ids, in, want)
		}
	}
}

// With cgroup v1, CPU time can be limited if the controller has both files.
func TestCPUQuota(t *testing.T) {
	const quota, period = "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us"
	for name, c := range map[string]struct {
		files []string
		want  bool
	}{"both": {[]string{quota, period}, false}, "one": {[]string{period}, true}, "the other": {[]string{quota}, true}} {
		all := files()
		delete(all, "sys/fs/cgroup/cgroup.controllers")
		for _, file := range c.files {
			all[file] = "-1\n"
		}
		got, err := Read(Settings{Machine: newMachine(t, all)})
		if err != nil || got.NoCPUQuota != c.want {
			t.Errorf("%s: no quota %t, %v; want %t", name, got.NoCPUQuota, err, c.want)
		}
	}
}
