package conformance

import "regexp"

// unfit are the specs that can't run here, by patterns of their names. They are left out, because each would
// wait for its time-out.
var unfit = []struct{ pattern, reason string }{
	// The machine lacks a feature.
	{`AppArmor`, "the kernel has no AppArmor"},
	{`SELinux`, "the kernel has no SELinux"},
	{`PrivilegedPod .* should enable privileged commands`, "the kernel has no devices of the kind dummy"},
	{`Mount propagation should propagate mounts`, "the machine's root isn't a shared mount, as systemd would make it"},
	{`guaranteed qos .* (cpu & mem restart|cpu restart resizing cpu|mem restart resizing (mem|cpu & mem))`,
		"devnode's containerd gives no negative OOM scores, which a container that has begun again is looked at for"},
	{`\[Feature:GPUDevicePlugin\]`, "there is no GPU"},
	// containerd before 2.0 lacks a feature.
	{`hostUsers=false|must create the user namespace if|user namespaced pods|User Namespaces for Restricted`,
		"containerd has no user namespaces"},
	{`SupplementalGroupsPolicy .* primary UID belongs`, "containerd doesn't tell of containers' users, nor takes a policy for groups"},
	{`RuntimeClass with scheduling with taints`, "devnode's containerd has no handler of the name test-handler"},
	// The cluster lacks a part.
	{`ImageCredentialProvider`, "needs a registry on the Internet and its credential plugin"},
	{`\[NFS\]`, "needs an NFS server's image"},
	{`\[Feature:NodeLogQuery\]`, "needs the journal of a service of the name kubelet"},
}

// unfitFor returns why a spec isn't run.
func unfitFor(name string) string {
	for _, u := range unfit {
		if regexp.MustCompile(u.pattern).MatchString(name) {
			return "not here: " + u.reason
		}
	}
	return "ginkgo left it out"
}
