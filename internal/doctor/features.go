package doctor

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// features checks which kinds of pods the runtime's handlers, and the kernel beneath them, can run.
func (e *examination) features(version *runtimeapi.VersionResponse, resp *runtimeapi.StatusResponse) []Finding {
	handlers := map[string]*runtimeapi.RuntimeHandlerFeatures{}
	for _, h := range resp.GetRuntimeHandlers() {
		handlers[h.GetName()] = h.GetFeatures()
	}
	// The handler without a name is the default one.
	usual := handlers[""]
	var lacks []string
	if !usual.GetUserNamespaces() {
		lacks = append(lacks, "user namespaces (pods with hostUsers: false)")
	}
	if !usual.GetRecursiveReadOnlyMounts() {
		lacks = append(lacks, "recursive read-only mounts (recursiveReadOnly: Enabled)")
	}
	if !resp.GetFeatures().GetSupplementalGroupsPolicy() {
		lacks = append(lacks, "supplementalGroupsPolicy (Strict)")
	}
	if len(lacks) > 0 {
		advice := "if pods need them, install runc 1.2 or crun 1.9, and a kernel of version 6.3, or later ones, and restart the runtime"
		if strings.HasPrefix(version.GetRuntimeVersion(), "1.") || strings.HasPrefix(version.GetRuntimeVersion(), "v1.") {
			advice = "if pods need them, install containerd 2.0 or later with runc 1.2 or later"
		}
		found := []Finding{{"features", Warning, "the runtime lacks " + strings.Join(lacks, ", ") + ": such pods don't start", advice}}
		if !usual.GetUserNamespaces() {
			return found
		}
		return append(found, e.userNamespaces()...)
	}
	if found := e.userNamespaces(); len(found) > 0 {
		return found
	}
	return []Finding{{"features", OK, "user namespaces, recursive read-only mounts, supplementalGroupsPolicy", ""}}
}

// userNamespaces checks whether the kernel has what a runtime with user namespaces relies on.
func (e *examination) userNamespaces() []Finding {
	const effect = ": pods with hostUsers: false don't start"
	if most, ok := e.number("proc/sys/user/max_user_namespaces"); ok && most < int64(e.Podexec.Settings.MaxPods) {
		return []Finding{{"features", Warning, fmt.Sprintf("user.max_user_namespaces=%d is less than one for each of %d pods", most, e.Podexec.Settings.MaxPods) + effect +
			" beyond that", fmt.Sprintf("sysctl -w user.max_user_namespaces=%d, and in /etc/sysctl.d", max(10*e.Podexec.Settings.MaxPods, 10000))}}
	}
	if e.olderThan(6, 3) {
		return []Finding{{"features", Warning, "the kernel is " + e.text("proc/sys/kernel/osrelease") + ", and can't map the IDs of tmpfs before 6.3" + effect +
			" if they have Secrets, tokens or volumes in memory", "install Linux 6.3 or later"}}
	}
	process := "self"
	if e.Podexec.PID != 0 {
		process = strconv.Itoa(e.Podexec.PID)
	}
	if m, ok := mountOf(e.mounts(process), e.Podexec.KubeletDir); ok && slices.Contains(unmapped, m.kind) {
		return []Finding{{"features", Warning, fmt.Sprintf("%s is on %s, whose IDs the kernel can't map", e.Podexec.KubeletDir, m.kind) + effect + " if they have volumes",
			"move podexecd's --kubelet-dir to ext4, xfs or btrfs"}}
	}
	return nil
}

// unmapped are file systems without idmapped mounts.
var unmapped = []string{"nfs", "nfs4", "9p", "cifs", "smb3", "overlay", "hostfs"}
