package world

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/test/inside"
)

// TestIdentity: the user, groups and privileges of a container's process.
func TestIdentity(t *testing.T) {
	t.Parallel()
	runRows(t, containerds, slices.Concat(userRows, capabilityRows, seccompRows, securityModuleRows, namespaceRows))
}

// TestNodeSettings: defaults and permissions that the node's owner configured.
func TestNodeSettings(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "resolv.conf")
	check(t, os.WriteFile(file, []byte(nodeResolvConf), 0o644))
	flags := []string{
		"--seccomp-default", "--allowed-unsafe-sysctls=kernel.msg*,net.core.somaxconn", "--node-labels=disk=ssd,example.org/zone=a",
		"--resolv-conf=" + file, "--cluster-dns=10.96.0.10", "--cluster-domain=cluster.test",
	}
	runRowsWith(t, latest, flags, slices.Concat(settingsRows, labelRows, dnsRows))
}

var userRows = []row{
	{
		name: "the image's user", spec: `{}`,
		check: func(r *inside.Report) error { return same("user", ids(r), "0:0 []") },
	},
	{
		name: "runAsUser and runAsGroup of the pod", spec: `{securityContext: {runAsUser: 1000, runAsGroup: 2000}}`,
		check: func(r *inside.Report) error { return same("user", ids(r), "1000:2000 []") },
	},
	{
		name: "runAsUser alone", spec: `{securityContext: {runAsUser: 1000}}`,
		check: func(r *inside.Report) error { return same("user", ids(r), "1000:0 []") },
	},
	{
		name: "runAsUser of a container", spec: `
securityContext: {runAsUser: 1000, runAsGroup: 2000}
containers:
- {name: own, securityContext: {runAsUser: 1001, runAsGroup: 2001}}
- {name: group, securityContext: {runAsGroup: 2002}}
- {name: pods}`,
		all: func(found map[string]*inside.Report) error {
			got := []string{ids(found["own"]), ids(found["group"]), ids(found["pods"])}
			return same("users", got, []string{"1001:2001 []", "1000:2002 []", "1000:2000 []"})
		},
	},
	{
		name: "runAsNonRoot with a user", spec: `{securityContext: {runAsNonRoot: true, runAsUser: 1000}}`,
		check: func(r *inside.Report) error { return same("user", ids(r), "1000:0 []") },
	},
	{
		name: "runAsNonRoot with an image that runs as root", spec: `{securityContext: {runAsNonRoot: true}}`,
		status: waitsFor("main", "CreateContainerConfigError", "container has runAsNonRoot and image will run as root"),
	},
	{
		name: "runAsNonRoot as root", spec: `{securityContext: {runAsNonRoot: true}, containers: [{name: main, securityContext: {runAsUser: 0}}]}`,
		status: waitsFor("main", "CreateContainerConfigError", "container's runAsUser breaks non-root policy"),
	},
	{
		name: "supplementalGroups", spec: `{securityContext: {runAsUser: 1000, runAsGroup: 2000, supplementalGroups: [4000, 3000]}}`,
		check: func(r *inside.Report) error { return same("user", ids(r), "1000:2000 [3000 4000]") },
	},
	{
		name: "fsGroup is a group of every process", spec: `
securityContext: {fsGroup: 5000, supplementalGroups: [4000]}
initContainers: [{name: sidecar, restartPolicy: Always}]
containers: [{name: main, securityContext: {runAsUser: 1000}}]`,
		all: func(found map[string]*inside.Report) error {
			return same("users", []string{ids(found["sidecar"]), ids(found["main"])}, []string{"0:0 [4000 5000]", "1000:0 [4000 5000]"})
		},
	},
	{
		name: "supplementalGroupsPolicy Merge", spec: `{securityContext: {supplementalGroups: [4000], supplementalGroupsPolicy: Merge}}`,
		check: func(r *inside.Report) error { return same("user", ids(r), "0:0 [4000]") },
	},
	{
		name: "supplementalGroupsPolicy Strict", needs: supplementalGroupsPolicy, golden: "supplemental-groups-strict",
		spec:  `{securityContext: {supplementalGroups: [4000], supplementalGroupsPolicy: Strict}}`,
		check: func(r *inside.Report) error { return same("user", ids(r), "0:0 [4000]") },
	},
	{
		name: "supplementalGroupsPolicy Strict needs containerd 2.0", without: supplementalGroupsPolicy, spec: `{securityContext: {supplementalGroupsPolicy: Strict}}`,
		status: refused("SupplementalGroupsPolicyNotSupported", "SupplementalGroupsPolicy=Strict is not supported in this node"),
	},
	{
		name: "a feature that the node doesn't declare", spec: `
volumes: [{name: v, emptyDir: {}}]
containers: [{name: main, volumeMounts: [{name: v, mountPath: /v, bindMountOptions: [noexec]}]}]`,
		status: refused("PodFeatureUnsupported", "Pod requires node features that are not available: VolumeBindMountOptions"),
	},
}

var namespaceRows = []row{
	{
		name: "safe sysctls", spec: `
securityContext:
  sysctls: [{name: kernel.shm_rmid_forced, value: "1"}, {name: net/ipv4/ip_unprivileged_port_start, value: "400"}]`,
		paths: []string{"/proc/sys/kernel/shm_rmid_forced", "/proc/sys/net/ipv4/ip_unprivileged_port_start"},
		check: sysctlsAre(map[string]string{"kernel/shm_rmid_forced": "1", "net/ipv4/ip_unprivileged_port_start": "400"}),
	},
	{
		name: "a sysctl that isn't safe", spec: `{securityContext: {sysctls: [{name: net.core.somaxconn, value: "100"}]}}`,
		status: refused("SysctlForbidden", `forbidden sysctl: "net.core.somaxconn" not allowlisted`),
	},
	{
		name: "users of its own", needs: userNamespaces, golden: "host-users-false", spec: `{hostUsers: false}`,
		check: func(r *inside.Report) error {
			var inside, outside, length uint32
			if _, err := fmt.Sscan(r.UIDMap, &inside, &outside, &length); err != nil || inside != 0 || outside == 0 || length != 65536 {
				return fmt.Errorf("its users are %q", r.UIDMap)
			}
			return nil
		},
	},
	ownUserVolumes,
	{
		name: "users of its own need containerd 2.0", without: userNamespaces, spec: `{hostUsers: false}`,
		events: has("FailedCreatePodSandBox", "can't set `spec.hostUsers: false`, runtime does not support user namespaces"),
	},
	{
		name: "the node's users", spec: `{hostUsers: true}`,
		check: func(r *inside.Report) error { return same("users", r.UIDMap, "0 0 4294967295") },
	},
	{
		name: "runtimeClassName", spec: `{runtimeClassName: runc}`,
		check: func(r *inside.Report) error { return same("user", ids(r), "0:0 []") },
	},
	{
		name: "a runtime class that the runtime has not", spec: `{runtimeClassName: nothing-here}`,
		// containerd 2 lists its handlers. An older one rejects the sandbox.
		events: either(
			has("FailedCreatePodSandBox", `the container runtime has no handler for "nothing-here"`),
			has("FailedCreatePodSandBox", `no runtime for "nothing-here" is configured`)),
	},
}

var settingsRows = []row{
	{
		name: "seccomp by default", spec: `
containers:
- {name: unsaid}
- {name: unconfined, securityContext: {seccompProfile: {type: Unconfined}}}
- {name: privileged, securityContext: {privileged: true}}`,
		all: seccompModes(map[string]int{"unsaid": 2, "unconfined": 0, "privileged": 0}),
	},
	{
		name: "sysctls that the node allows", spec: `
securityContext:
  sysctls: [{name: net.core.somaxconn, value: "100"}, {name: kernel.msgmax, value: "10000"}, {name: kernel.shm_rmid_forced, value: "1"}]`,
		paths: []string{"/proc/sys/net/core/somaxconn", "/proc/sys/kernel/msgmax", "/proc/sys/kernel/shm_rmid_forced"},
		check: sysctlsAre(map[string]string{"net/core/somaxconn": "100", "kernel/msgmax": "10000", "kernel/shm_rmid_forced": "1"}),
	},
	{
		name: "a sysctl that the node doesn't allow", spec: `{securityContext: {sysctls: [{name: kernel.shmmax, value: "100"}]}}`,
		status: refused("SysctlForbidden", `forbidden sysctl: "kernel.shmmax" not allowlisted`),
	},
}

// same returns an error if got differs from want.
func same[T any](what string, got, want T) error {
	if !reflect.DeepEqual(got, want) {
		return fmt.Errorf("%s: %+v; want %+v", what, got, want)
	}
	return nil
}

// ids returns the user, the group and the other groups: "1000:2000 [3000]". Some runtimes include the group itself
// among the other groups.
func ids(r *inside.Report) string {
	others := slices.DeleteFunc(slices.Sorted(slices.Values(r.Groups)), func(g int) bool { return g == r.GID })
	return fmt.Sprintf("%d:%d %v", r.UID, r.GID, others)
}

// sysctlsAre compares files below /proc/sys.
func sysctlsAre(want map[string]string) func(*inside.Report) error {
	return func(r *inside.Report) error {
		got := map[string]string{}
		for name := range want {
			got[name] = strings.TrimSpace(r.Files["/proc/sys/"+name].Content)
		}
		return same("sysctls", got, want)
	}
}

// refused expects a pod that the node rejects with that reason, and with a message that contains the text.
func refused(reason, message string) func(*v1.Pod) error {
	return func(p *v1.Pod) error {
		s := &p.Status
		if s.Phase != v1.PodFailed || s.Reason != reason || !strings.Contains(s.Message, message) {
			return fmt.Errorf("it is %s for %q: %q", s.Phase, s.Reason, s.Message)
		}
		return nil
	}
}
