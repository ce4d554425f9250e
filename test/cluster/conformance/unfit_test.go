package conformance

import (
	"context"
	"regexp"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstream/podstream/test/devnode"
	"github.com/podstream/podstream/test/rig"
)

// site is what a machine and its runtime have, or lack.
type site struct {
	// runtime is the runtime's name and version.
	runtime                                      string
	userNamespaces, groupsPolicy, lowerOOMScores bool
}

// unfit are specs that can't run here, and the reason.
type unfit struct {
	// pattern matches the specs' names.
	pattern, reason string
	// fits reports whether a site can run them. Nil means that none can.
	fits func(site) bool
}

// unfits are left out, because each spec would wait for its time-out.
var unfits = []unfit{
	// The machine lacks a feature.
	{pattern: `AppArmor`, reason: "the kernel has no AppArmor"},
	{pattern: `SELinux`, reason: "the kernel has no SELinux"},
	{pattern: `PrivilegedPod .* should enable privileged commands`, reason: "the kernel has no devices of the kind dummy"},
	{pattern: `Mount propagation should propagate mounts`, reason: "the machine's root isn't a shared mount, as systemd would make it"},
	{
		pattern: `guaranteed qos .* (cpu & mem restart|cpu restart resizing cpu|mem restart resizing (mem|cpu & mem))`,
		reason:  "devnode's containerd gives no negative OOM scores, which a container that has begun again is looked at for",
		fits:    func(s site) bool { return s.lowerOOMScores },
	},
	{pattern: `\[Feature:GPUDevicePlugin\]`, reason: "there is no GPU"},
	// The runtime lacks a feature, as each containerd before 2.0 does.
	{
		pattern: `hostUsers=false|must create the user namespace if|user namespaced pods|User Namespaces for Restricted`,
		reason:  "the runtime has no user namespaces",
		fits:    func(s site) bool { return s.userNamespaces },
	},
	{
		pattern: `SupplementalGroupsPolicy .* primary UID belongs`,
		reason:  "the runtime doesn't report containers' users, nor takes a policy for groups",
		fits:    func(s site) bool { return s.groupsPolicy },
	},
	{pattern: `RuntimeClass with scheduling with taints`, reason: "devnode's containerd has no handler of the name test-handler"},
	{
		pattern: `MirrorPodWithGracePeriod .* the container runtime is temporarily down`,
		reason:  "stops containerd's unit through D-Bus, and no systemd runs containerd here",
	},
	// The cluster lacks a part.
	{pattern: `ImageCredentialProvider`, reason: "needs a registry on the Internet and its credential plugin"},
	{pattern: `\[NFS\]|\[Driver: nfs\]`, reason: "needs an NFS server's image"},
	{pattern: `\[Feature:VolumeSnapshotDataSource\]`, reason: "needs the resources of snapshots, and their controller"},
	{pattern: `\[Feature:NodeLogQuery\]`, reason: "needs the journal of a service of the name kubelet"},
}

// unfit returns the specs that the site can't run.
func (s site) unfit() []unfit {
	return slices.DeleteFunc(slices.Clone(unfits), func(u unfit) bool { return u.fits != nil && u.fits(s) })
}

// unfitFor returns why a spec isn't run, or nothing.
func (s site) unfitFor(name string) string {
	for _, u := range s.unfit() {
		if regexp.MustCompile(u.pattern).MatchString(name) {
			return "not here: " + u.reason
		}
	}
	return ""
}

// lookAt returns the site of a machine.
func lookAt(t *testing.T, machine *devnode.Node) site {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	conn := rig.Get(grpc.NewClient(machine.Endpoint(), grpc.WithTransportCredentials(insecure.NewCredentials())))(t)
	defer conn.Close()
	client := runtimeapi.NewRuntimeServiceClient(conn)
	version := rig.Get(client.Version(ctx, &runtimeapi.VersionRequest{}))(t)
	status := rig.Get(client.Status(ctx, &runtimeapi.StatusRequest{}))(t)
	return site{
		runtime: version.GetRuntimeName() + "-" + version.GetRuntimeVersion(),
		userNamespaces: slices.ContainsFunc(status.GetRuntimeHandlers(), func(h *runtimeapi.RuntimeHandler) bool {
			return h.GetFeatures().GetUserNamespaces()
		}),
		groupsPolicy: status.GetFeatures().GetSupplementalGroupsPolicy(), lowerOOMScores: devnode.LowersOOMScores(),
	}
}
