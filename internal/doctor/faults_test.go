package doctor

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Each fault of a machine is found, with its consequence, and with advice on that fault.
func TestFaultsOfMachines(t *testing.T) {
	unit := fmt.Sprintf("proc/%d/", os.Getpid())
	podexecd := fmt.Sprintf("proc/%d/", podexecdPID)
	inotify := func(n *node, instances, watches int) {
		for i := range instances {
			n.link(fmt.Sprintf("%sfd/%d", podexecd, i), "anon_inode:inotify")
		}
		n.write(podexecd+"fdinfo/0", "pos:\t0\n"+strings.Repeat("inotify wd:1 ino:2\n", watches))
		n.write("proc/sys/fs/inotify/max_user_instances", "8\n")
		n.write("proc/sys/fs/inotify/max_user_watches", "100\n")
	}
	for name, tc := range map[string]struct {
		harm          func(n *node)
		check         string
		state         State
		found, advice string
	}{
		"memory is disabled by the command line": {func(n *node) {
			n.write("sys/fs/cgroup/cgroup.controllers", "cpuset cpu hugetlb pids\n")
			n.write("proc/cmdline", "root=/dev/sda1 cgroup_disable=rdma,memory quiet\n")
		}, "cgroups", Failed, "v2 lacks the controller memory, which the cgroup of each pod needs: podexecd ends when it is started", "remove cgroup_disable=memory from"},
		"pids is disabled otherwise": {func(n *node) {
			n.write("sys/fs/cgroup/cgroup.controllers", "cpuset cpu hugetlb memory\n")
			n.write("proc/cgroups", "pids\t0\t1\t0\n")
		}, "cgroups", Failed, "lacks the controller pids", "boot with cgroup_enable=pids"},
		"cpu is held by v1": {func(n *node) {
			n.write("sys/fs/cgroup/cgroup.controllers", "cpuset hugetlb memory pids\n")
			n.write("proc/cgroups", "cpu\t3\t1\t1\n")
		}, "cgroups", Failed, "lacks the controller cpu,", "cgroup_no_v1=cpu"},
		"memory isn't passed on to a container": {func(n *node) {
			n.write("sys/fs/cgroup/cgroup.controllers", "cpu cpuset hugetlb pids\n")
			n.write("sys/fs/cgroup/cgroup.type", "domain\n")
		}, "cgroups", Failed, "lacks the controller memory", "cgroup.subtree_control above it"},
		"memory isn't built in": {func(n *node) { n.write("sys/fs/cgroup/cgroup.controllers", "cpu cpuset hugetlb pids\n") },
			"cgroups", Failed, "lacks the controller memory", "CONFIG_MEMCG"},
		"hugetlb is missing, and there are huge pages": {func(n *node) {
			n.write("sys/fs/cgroup/cgroup.controllers", "cpu cpuset memory pids\n")
			n.write("sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "16\n")
		}, "cgroups", Warning, "more of the node's huge pages than its limit", "CONFIG_CGROUP_HUGETLB"},
		"cpuset is missing": {func(n *node) { n.write("sys/fs/cgroup/cgroup.controllers", "cpu memory hugetlb pids\n") },
			"cgroups", OK, "without cpuset (containers can't be bound to processors, which podexecd doesn't do)", ""},
		"the pods' cgroup has lost memory": {func(n *node) { n.write("sys/fs/cgroup/kubepods.slice/cgroup.controllers", "cpu pids\n") },
			"cgroups", Failed, "/sys/fs/cgroup/kubepods.slice lacks memory, which the machine has", "write +memory to /sys/fs/cgroup/cgroup.subtree_control"},
		"v1 under systemd": {func(n *node) { n.v1("cpu memory pids devices cpuacct cpuset hugetlb") },
			"cgroups", Warning, "the kubelet refuses v1", "systemd.unified_cgroup_hierarchy=1"},
		"v1 without pids": {func(n *node) {
			n.v1("cpu memory devices cpuacct cpuset hugetlb")
			n.write("proc/cgroups", "pids\t0\t1\t1\n")
		}, "cgroups", Failed, "v1 lacks the controller pids", "mount -t cgroup -o pids cgroup /sys/fs/cgroup/pids"},
		"no cgroups of pods": {func(n *node) { n.config.Podexec.Settings.CgroupsPerQOS = false }, "cgroups", Warning, "no cgroups of their own", "if that is meant"},

		"the handler has another driver, which the runtime doesn't report": {func(n *node) { n.driver = nil },
			"cgroup driver", Failed, "default handler runc uses systemd, and podexecd cgroupfs: containers don't start", "give podexecd --cgroup-driver=systemd"},
		"the handler has systemd's driver, which podexecd can't use": {func(n *node) {
			n.driver = nil
			_ = os.RemoveAll(n.dir + "/run/systemd")
		}, "cgroup driver", Failed, "default handler runc uses systemd, and podexecd cgroupfs", "set SystemdCgroup = false for it"},
		"systemd's driver by flag, without systemd": {func(n *node) {
			n.driver, n.config.Podexec.Settings.CgroupDriver = nil, "systemd"
			_ = os.RemoveAll(n.dir + "/run/systemd")
		}, "cgroup driver", Failed, "systemd doesn't run here", "give podexecd --cgroup-driver=cgroupfs"},
		"the default handler has another driver": {func(n *node) { n.handlers(false) },
			"cgroup driver", Failed, "default handler runc uses cgroupfs, and podexecd systemd", "set SystemdCgroup = true for it"},
		"another handler has another driver": {func(n *node) {
			n.status.Info["config"] = strings.Replace(n.status.Info["config"], `"options": null`, `"options": {"SystemdCgroup": false}`, 1)
		}, "cgroup driver", Warning, "handlers kata don't use systemd", "set SystemdCgroup = true for them"},
		"cgroupfs under systemd": {func(n *node) {
			n.driver.CgroupDriver = runtimeapi.CgroupDriver_CGROUPFS
			n.handlers(false)
		}, "cgroup driver", Warning, "cgroupfs (the runtime reports it), but systemd runs here", "set SystemdCgroup = true"},
		"systemd's driver without systemd": {func(n *node) { _ = os.RemoveAll(n.dir + "/run/systemd") },
			"cgroup driver", Failed, "systemd doesn't run here: no pod's cgroup can be made", "SystemdCgroup = false"},
		"a driver that isn't reported": {func(n *node) { n.driver, n.driverErr = nil, errors.New("not now") }, "cgroup driver", Failed, "not now; podexecd waits", "runtime's log"},

		"runc is too old": {func(n *node) { n.status.RuntimeHandlers[0].Features = nil },
			"features", Warning, "lacks user namespaces (pods with hostUsers: false), recursive read-only mounts", "install runc 1.2"},
		"containerd is too old": {func(n *node) { n.version, n.status.Features = "1.7.24", nil }, "features", Warning, "lacks supplementalGroupsPolicy", "install containerd 2.0"},
		"no user namespaces":    {func(n *node) { n.write("proc/sys/user/max_user_namespaces", "0\n") }, "features", Warning, "pods with hostUsers: false don't start", "user.max_user_namespaces="},
		"a kernel without idmapped tmpfs": {func(n *node) { n.write("proc/sys/kernel/osrelease", "6.1.0-40-amd64\n") },
			"features", Warning, "6.1.0-40-amd64, and can't map the IDs of tmpfs", "Linux 6.3"},
		"volumes on NFS": {func(n *node) { n.write(podexecd+"mountinfo", "20 1 98:0 / / rw shared:1 - nfs4 host:/ rw\n") },
			"features", Warning, "is on nfs4, whose IDs the kernel can't map", "ext4, xfs or btrfs"},
		"no runtime": {func(n *node) { n.config.Podexec.Settings.RuntimeEndpoint = "unix:///nowhere" },
			"runtime", Failed, "no runtime answers at unix:///nowhere", "--container-runtime-endpoint"},
		"a runtime that has ended": {func(n *node) { n.config.Podexec.Settings.RuntimeEndpoint = "unix://" + n.deadSocket() },
			"runtime", Failed, "connection refused", "no runtime listens: start it"},
		"a runtime without CRI": {func(n *node) { n.config.Podexec.Settings.RuntimeEndpoint = "unix://" + n.emptyServer() },
			"runtime", Failed, "unknown service", "disabled_plugins"},
		"a deprecated configuration": {func(n *node) {
			n.status.Status.Conditions = append(n.status.Status.Conditions, &runtimeapi.RuntimeCondition{
				Type: "ContainerdHasNoDeprecationWarnings", Reason: "ContainerdHasDeprecationWarnings", Message: "config v1",
			})
		}, "runtime", Warning, "ContainerdHasNoDeprecationWarnings as false: ContainerdHasDeprecationWarnings: config v1", "before the runtime's next upgrade"},

		"swap that isn't counted": {func(n *node) {
			n.swap()
			_ = os.Remove(n.dir + "/sys/fs/cgroup/system.slice/memory.swap.max")
		}, "swap", Warning, "cgroups don't count it", "swapaccount=1"},
		"swap under an old kernel": {func(n *node) {
			n.swap()
			n.write("proc/sys/kernel/osrelease", "6.3.1\n")
		}, "swap", Warning, "the Secrets of pods may be written to the disk", "encrypt the swap"},
		"swap that no pod gets": {func(n *node) { n.swap() }, "swap", OK, "511 MiB of swap, and pods use none", ""},
		"swap with v1": {func(n *node) {
			n.swap()
			n.v1("cpu memory pids devices")
		}, "swap", OK, "containers with a memory limit use none of it, and the others do", ""},
		"limited swap": {func(n *node) {
			n.swap()
			n.config.Podexec.Settings.LimitedSwap = true
		}, "swap", OK, "in proportion to their memory requests", ""},
		"limited swap without swap": {func(n *node) { n.config.Podexec.Settings.LimitedSwap = true }, "swap", Warning, "has no swap: burstable pods get none", "mkswap"},
		"limited swap with v1": {func(n *node) {
			n.swap()
			n.v1("cpu memory pids devices")
			n.config.Podexec.Settings.LimitedSwap = true
		}, "swap", Warning, "no effect with cgroup v1", "cgroup v2"},
		"swap that podexecd refuses": {func(n *node) {
			n.swap()
			n.config.Podexec.Settings.FailSwapOn, n.config.Podexec.Running = true, false
		}, "swap", Failed, "511 MiB of swap, with which podexecd doesn't start (failSwapOn)", "failSwapOn: false"},
		"swap that podexecd refuses later": {func(n *node) {
			n.swap()
			n.config.Podexec.Settings.FailSwapOn, n.config.Podexec.Running = true, true
		}, "swap", Warning, "doesn't start again (failSwapOn)", "swapoff -a"},

		"a kernel that podexecd refuses": {func(n *node) {
			n.write("proc/sys/kernel/panic", "5\n")
			n.config.Podexec.Settings.ProtectKernelDefaults = true
		}, "kernel", Failed, "(protectKernelDefaults): invalid kernel flag: kernel.panic, expected value: 10, actual value: 5", "sysctl -w kernel.panic=10"},
		"a kernel that isn't set": {func(n *node) {
			n.write("proc/sys/kernel/panic", "0\n")
			n.config.Podexec.Settings.TuneKernel = false
		}, "kernel", Warning, "stands still", "without --tune-kernel=false"},
		"a panic for each container": {func(n *node) { n.write("proc/sys/vm/panic_on_oom", "2\n") }, "kernel", Failed, "stops the whole machine", "vm.panic_on_oom=0"},
		"a panic for memory":         {func(n *node) { n.write("proc/sys/vm/panic_on_oom", "1\n") }, "kernel", Warning, "short of memory stops", "vm.panic_on_oom=0"},
		"strict overcommit":          {func(n *node) { n.write("proc/sys/vm/overcommit_memory", "2\n") }, "kernel", Warning, "get no memory although", "vm.overcommit_memory=1"},
		"careful overcommit":         {func(n *node) { n.write("proc/sys/vm/overcommit_memory", "0\n") }, "kernel", Warning, "unable to fork", "vm.overcommit_memory=1"},
		"no boot after a panic":      {func(n *node) { n.write("proc/sys/kernel/panic", "0\n") }, "kernel", Warning, "stands still", "kernel.panic=10"},
		"no panic after a fault":     {func(n *node) { n.write("proc/sys/kernel/panic_on_oops", "0\n") }, "kernel", Warning, "pods may hang", "kernel.panic_on_oops=1"},
		"few keys":                   {func(n *node) { n.write("proc/sys/kernel/keys/root_maxkeys", "200\n") }, "kernel", Warning, "root_maxkeys=200: each container", "root_maxkeys=1000000"},
		"small keys":                 {func(n *node) { n.write("proc/sys/kernel/keys/root_maxbytes", "20000\n") }, "kernel", Warning, "disk quota exceeded", "root_maxbytes=25000000"},
		"no log of the kernel":       {func(n *node) { _ = os.Remove(n.dir + "/" + podexecd + "root/dev/kmsg") }, "kernel", Warning, "podexecd has no /dev/kmsg", "SYSLOG"},
		"an old kernel":              {func(n *node) { n.write("proc/sys/kernel/osrelease", "5.4.0\n") }, "kernel", Warning, "cgroup v2 from 5.8 on", "newer kernel"},

		"inotify's instances run short":   {func(n *node) { inotify(n, 7, 0) }, "inotify", Warning, "7 of 8 instances", "fs.inotify.max_user_instances=64"},
		"inotify's instances are used up": {func(n *node) { inotify(n, 8, 0) }, "inotify", Failed, "8 of 8 instances: programs that follow files fail", "fs.inotify.max_user_instances=64"},
		"inotify's watches are used up":   {func(n *node) { inotify(n, 1, 99) }, "inotify", Failed, "99 of 100 watches", "fs.inotify.max_user_watches=800"},
		"another user's inotify": {func(n *node) {
			inotify(n, 8, 0)
			n.write(podexecd+"status", "Name:\tx\nUid:\t1000\t0\t0\t0\n")
		}, "inotify", OK, "0 of 8 instances", ""},

		"containerd without KillMode": {func(n *node) { n.write("etc/systemd/system/containerd.service", "[Service]\nDelegate=yes\n") },
			"processes", Warning, "containerd.service has KillMode=control-group, the default: a restart of the runtime ends", "KillMode=process"},
		"a drop-in with another KillMode": {func(n *node) {
			n.write("etc/systemd/system/containerd.service.d/10-x.conf", "# x\n[Service]\nKillMode=mixed\n")
		},
			"processes", Warning, "containerd.service has KillMode=mixed", "systemctl edit containerd.service"},
		"no delegation": {func(n *node) {
			n.config.Podexec.Settings.CgroupsPerQOS = false
			n.write("etc/systemd/system/containerd.service.d/10-x.conf", "[Service]\nDelegate=no\n")
		}, "processes", Warning, "containerd.service has no Delegate=yes", "[Service] Delegate=yes"},
		"a podexecd that is killed first": {func(n *node) { n.write(podexecd+"oom_score_adj", "0\n") }, "processes", Warning, "podexecd has oom_score_adj 0", "OOMScoreAdjust=-999"},
		"a kubelet": {func(n *node) {
			n.write("proc/9999/cmdline", "/usr/bin/kubelet\x00--container-runtime-endpoint="+n.config.Podexec.Settings.RuntimeEndpoint+"\x00")
			n.write("proc/9999/cgroup", "0::/system.slice/kubelet.service\n")
			n.write("proc/9999/status", "Uid:\t0\t0\t0\t0\n")
			if err := os.Symlink("/", n.dir+"/proc/9999/root"); err != nil {
				n.t.Fatal(err)
			}
		}, "processes", Failed, "process 9999 of kubelet.service; it uses the container runtime /", "stop the kubelet"},
		"a runtime that is killed first": {func(n *node) { n.write(unit+"oom_score_adj", "500\n") }, "processes", Warning, "the runtime has oom_score_adj 500", "OOMScoreAdjust=-999"},
		"a runtime with many processes": {func(n *node) {
			n.write("sys/fs/cgroup/system.slice/containerd.service/pids.max", "4915\n")
			n.write("sys/fs/cgroup/system.slice/containerd.service/pids.current", "4000\n")
		}, "processes", Warning, "4000 of at most 4915 processes", "TasksMax=infinity"},
		"a runtime with all processes": {func(n *node) {
			n.write("sys/fs/cgroup/system.slice/containerd.service/pids.max", "4915\n")
			n.write("sys/fs/cgroup/system.slice/containerd.service/pids.current", "4914\n")
		}, "processes", Failed, "no container starts", "TasksMax=infinity"},
		"a unit with a mount namespace": {func(n *node) {
			n.write("run/systemd/transient/podexecd.service", "[Service]\nPrivateTmp=yes\nProtectSystem=false\n")
			n.own()
		}, "processes", Failed, "Secrets, tokens and volumes in memory are empty in the pods", "systemctl edit podexecd.service: take away PrivateTmp=yes"},
		"a container without propagation": {func(n *node) {
			n.write(podexecd+"cgroup", "0::/system.slice/docker-1.scope\n")
			n.own()
		}, "processes", Failed, "mount namespace of its own", "rshared"},
		"a container with propagation": {func(n *node) {
			n.own()
			n.write(podexecd+"mountinfo", "120 1 98:0 / / rw,noatime shared:1 - ext4 /dev/root rw\n")
		}, "processes", OK, "podexecd and the runtime", ""},
		"a directory that others can write to": {func(n *node) {
			n.write(podexecd+"root/var/lib/kubelet/plugins_registry/x", "")
			n.mode(podexecd+"root/var/lib/kubelet/plugins_registry", 0o777)
		}, "directories", Failed, "/var/lib/kubelet/plugins_registry has the mode 0777", "chmod go-w /var/lib/kubelet/plugins_registry"},
		"a file in the place of a directory": {func(n *node) { n.write(podexecd+"root/var/lib/kubelet/pods", "") },
			"directories", Failed, "/var/lib/kubelet/pods isn't a directory", "move it away"},
		"a link to the directory": {func(n *node) {
			n.write(podexecd+"root/var/lib/x", "")
			n.link(podexecd+"root/var/lib/kubelet", "/data/kubelet")
		}, "directories", Warning, "the symbolic link /var/lib/kubelet to /data/kubelet", "mount --bind /data/kubelet /var/lib/kubelet"},
		"a directory that is too long": {func(n *node) { n.config.Podexec.KubeletDir = "/" + strings.Repeat("k", 100) },
			"directories", Failed, "bytes too long", "another --kubelet-dir"},
		"a container without the devices": {func(n *node) {
			n.write("proc/1/root/x", "")
			n.link("proc/1/root/dev", "/proc")
		}, "directories", Warning, "/dev of its own", "--volume /dev:/dev"},
		"a container without mount": {func(n *node) { _ = os.Remove(n.dir + "/" + programs + "bin/mount") },
			"directories", Warning, "finds no program mount: volumes of NFS", "run podexecd as a unit"},
		"a program that can't be run": {func(n *node) { n.mode(programs+"bin/mount", 0o644) }, "directories", Warning, "finds no program mount", "its image"},
		"a program that is a link out of the container": {func(n *node) {
			n.link(programs+"bin/mount", "/usr/nowhere/mount")
			n.write("usr/nowhere/mount", "")
			n.mode("usr/nowhere/mount", 0o755)
		}, "directories", Warning, "finds no program mount", "its image"},
		"no NFS": {func(n *node) { _ = os.Remove(n.dir + "/" + programs + "sbin/mount.nfs") },
			"directories", OK, "without mount.nfs (the package nfs-common or nfs-utils)", ""},
		"no iSCSI": {func(n *node) { _ = os.Remove(n.dir + "/" + programs + "sbin/iscsiadm") },
			"directories", OK, "without iscsiadm (the package open-iscsi or iscsi-initiator-utils)", ""},
		"no iscsid": {func(n *node) {
			n.write(podexecd+"net/unix", "Num       RefCount Protocol Flags    Type St Inode Path\n0000000000000000: 00000002 00000000 00010000 0001 01 10010 @other\n")
		}, "directories", OK, "iscsid doesn't listen in podexecd's network", ""},
		"no mkfs": {func(n *node) { _ = os.Remove(n.dir + "/" + programs + "sbin/mkfs.ext4") },
			"directories", Warning, "doesn't find mkfs.ext4: local block devices", "install e2fsprogs"},
		"a directory without programs": {func(n *node) {
			n.write(podexecd+"mountinfo", "20 1 98:0 / / rw shared:1 - ext4 /dev/root rw\n21 20 98:1 / /var/lib/kubelet rw,nosuid,noexec shared:1 - ext4 /dev/vdb rw\n")
		}, "directories", Warning, "the mount /var/lib/kubelet, with --kubelet-dir, is noexec", "mount -o remount,exec /var/lib/kubelet"},
		"a private root": {func(n *node) { n.write(podexecd+"mountinfo", "20 1 98:0 / / rw,noatime - ext4 /dev/root rw\n") },
			"processes", Warning, "isn't shared: pods with mountPropagation don't start", "mount --make-rshared /"},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			tc.harm(n)
			findings := Examine(t.Context(), n.config)
			f := find(findings, tc.check, tc.state, tc.found)
			if f == nil {
				t.Fatalf("no check %s is %s with %q; found %+v", tc.check, tc.state, tc.found, findings)
			}
			if !strings.Contains(f.Advice, tc.advice) || (f.Advice == "") != (tc.state == OK) {
				t.Errorf("the advice is %q; want %q", f.Advice, tc.advice)
			}
		})
	}
}
