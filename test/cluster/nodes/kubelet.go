package nodes

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/podstream/podstream/test/devnode"
)

// kubeletConfig is added to the configuration of a kubelet. It is what podexecd has in its flags, or needn't be told.
func (n *Node) kubeletConfig() string {
	return fmt.Sprintf("podLogsDir: %q\nvolumePluginDir: %q\nfailCgroupV1: false\nfailSwapOn: false\n", n.Path("log", "pods"), n.Path("plugins"))
}

// startKubelet starts a kubelet as both daemons. Its pods have cgroups and thresholds like those of podexecd.
func (n *Node) startKubelet() (err error) {
	if n.Kubelet != "" {
		err := os.Symlink(n.Kubelet, filepath.Join(n.cluster.BinDir(), "kubelet"))
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	cgroup := filepath.Join(n.Machine.CgroupRoot(), n.Name+"-kubelet")
	if err := errors.Join(makeCgroup(cgroup), n.saveSysctls()); err != nil {
		return err
	}
	n.Podexecd, err = n.Machine.StartDaemonAs(n.Name+"-kubelet", "kubelet", slices.Concat([]string{
		"--kubeconfig", n.Kubeconfig(), "--config", n.Path("config.yaml"), "--hostname-override", n.Name, "--root-dir", n.Path("kubelet"),
		"--cert-dir", n.Path("kubelet", "pki"), "--container-runtime-endpoint", n.Machine.Endpoint(), "--pod-manifest-path", n.Manifests,
		"--node-ip", n.cluster.IP, "--make-iptables-util-chains=false", "--cgroup-root", cgroup,
	}, devnode.RoomFlags, n.PodexecdFlags)...)
	n.Podconfigd = n.Podexecd
	return err
}

// makeCgroup makes a cgroup in each hierarchy: a kubelet doesn't make its root. The machine removes it.
func makeCgroup(cgroup string) error {
	hierarchies, err := filepath.Glob("/sys/fs/cgroup/*/cgroup.procs")
	if len(hierarchies) == 0 {
		hierarchies = []string{"/sys/fs/cgroup/cgroup.procs"}
	}
	errs := []error{err}
	for _, file := range hierarchies {
		errs = append(errs, os.MkdirAll(filepath.Join(filepath.Dir(file), cgroup), 0o755))
	}
	return errors.Join(errs...)
}

// kubeletSysctls are the settings of the whole machine that a kubelet changes.
var kubeletSysctls = []string{
	"vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops", "kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes",
}

// saveSysctls reads the settings that a kubelet changes, so that restoreSysctls can write them back.
func (n *Node) saveSysctls() error {
	n.sysctls = map[string][]byte{}
	for _, name := range kubeletSysctls {
		path := "/proc/sys/" + name
		value, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue // the kernel has no keyrings
		}
		if err != nil {
			return err
		}
		n.sysctls[path] = value
	}
	return nil
}

func (n *Node) restoreSysctls() error {
	var errs []error
	for path, value := range n.sysctls {
		errs = append(errs, os.WriteFile(path, value, 0o644))
	}
	return errors.Join(errs...)
}
