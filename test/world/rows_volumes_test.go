package world

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/podstream/podstream/test/inside"
)

func TestVolumes(t *testing.T) {
	t.Parallel()
	runRows(t, slices.Concat(emptyDirs, hostPaths, mounts))
}

// mountV is a container that has volume v at /v.
const mountV = `
containers: [{name: main, volumeMounts: [{name: v, mountPath: /v}]}]
`

var emptyDirs = []row{
	{
		name:  "emptyDir",
		spec:  mountV + `volumes: [{name: v, emptyDir: {}}]`,
		paths: []string{"/v"},
		check: finds(map[string]string{"/v": "dir 0777 0:0 writable"}),
	},
	{
		name: "emptyDir is shared by the containers and outlives them",
		spec: `
volumes: [{name: v, emptyDir: {}}]
initContainers:
- {name: first, args: [write, /v/first, one], volumeMounts: [{name: v, mountPath: /v}]}
- {name: second, args: [write, /in/second, two], volumeMounts: [{name: v, mountPath: /in}]}
containers:
- {name: main, volumeMounts: [{name: v, mountPath: /v}]}
- {name: reader, volumeMounts: [{name: v, mountPath: /v, readOnly: true}]}`,
		paths: []string{"/v"},
		all: func(found map[string]*inside.Report) error {
			return errors.Join(
				finds(map[string]string{"/v/first": `file 0644 0:0 writable "one"`, "/v/second": `file 0644 0:0 writable "two"`})(found["main"]),
				finds(map[string]string{"/v/first": `file 0644 0:0 "one"`, "/v/second": `file 0644 0:0 "two"`})(found["reader"]))
		},
	},
	{
		name:  "emptyDir mode",
		spec:  mountV + `volumes: [{name: v, emptyDir: {mode: 0o750}}]`,
		paths: []string{"/v"},
		check: finds(map[string]string{"/v": "dir 0750 0:0 writable"}),
	},
	{
		name:  "emptyDir medium Memory",
		spec:  mountV + `volumes: [{name: v, emptyDir: {medium: Memory}}]`,
		paths: []string{"/v"},
		check: both(finds(map[string]string{"/v": "dir 0777 0:0 writable"}), mounted("/v", "tmpfs")),
	},
	{
		name:  "emptyDir medium Memory sizeLimit",
		spec:  mountV + `volumes: [{name: v, emptyDir: {medium: Memory, sizeLimit: 2Mi}}]`,
		check: mounted("/v", "tmpfs", "size=2048k"),
	},
	{
		name: "emptyDir medium Memory holds no more than the containers may use",
		spec: `
volumes: [{name: v, emptyDir: {medium: Memory, sizeLimit: 1Gi}}]
containers:
- {name: main, volumeMounts: [{name: v, mountPath: /v}], resources: {limits: {memory: 64Mi}}}
- {name: other, resources: {limits: {memory: 32Mi}}}`,
		check: mounted("/v", "tmpfs", "size=98304k"),
	},
	{
		name: "emptyDir medium HugePages",
		spec: `
volumes: [{name: v, emptyDir: {medium: HugePages-2Mi}}]
containers:
- {name: main, volumeMounts: [{name: v, mountPath: /v}], resources: {limits: {hugepages-2Mi: 4Mi, memory: 64Mi}}}`,
		check: mounted("/v", "hugetlbfs", "pagesize=2M"),
		needs: hugePages, golden: "hugepages-of-both-sizes",
	},
	{
		name:  "fsGroup of an emptyDir",
		spec:  mountV + "volumes: [{name: v, emptyDir: {}}]\nsecurityContext: {fsGroup: 4321}",
		paths: []string{"/v"},
		check: finds(map[string]string{"/v": "dir 2777 0:4321 writable"}),
	},
	{
		name:  "fsGroup of an emptyDir with a mode",
		spec:  mountV + "volumes: [{name: v, emptyDir: {mode: 0o700}}]\nsecurityContext: {fsGroup: 4321}",
		paths: []string{"/v"},
		check: finds(map[string]string{"/v": "dir 2770 0:4321 writable"}),
	},
	{
		name: "fsGroup gets what a container makes",
		spec: `
securityContext: {fsGroup: 4321, runAsUser: 1000}
volumes: [{name: v, emptyDir: {medium: Memory}}]
initContainers: [{name: first, args: [write, /v/new, text], volumeMounts: [{name: v, mountPath: /v}]}]
containers: [{name: main, volumeMounts: [{name: v, mountPath: /v}]}]`,
		paths: []string{"/v"},
		check: finds(map[string]string{"/v": "dir 2777 0:4321 writable", "/v/new": `file 0644 1000:4321 writable "text"`}),
	},
	{
		name:  "fsGroupChangePolicy OnRootMismatch",
		spec:  mountV + "volumes: [{name: v, emptyDir: {}}]\nsecurityContext: {fsGroup: 4321, fsGroupChangePolicy: OnRootMismatch}",
		paths: []string{"/v"},
		check: finds(map[string]string{"/v": "dir 2777 0:4321 writable"}),
	},
	{
		name:  "fsGroupChangePolicy Always",
		spec:  mountV + "volumes: [{name: v, emptyDir: {}}]\nsecurityContext: {fsGroup: 4321, fsGroupChangePolicy: Always}",
		paths: []string{"/v"},
		check: finds(map[string]string{"/v": "dir 2777 0:4321 writable"}),
	},
}

var hostPaths = []row{
	{
		name: "hostPath without a type",
		spec: mountV + `volumes: [{name: v, hostPath: {path: "{{dir}}"}}]`,
		prepare: func(t *testing.T, p *pod) {
			check(t, os.WriteFile(filepath.Join(p.dir, "file"), []byte("text"), 0o600))
		},
		paths: []string{"/v"},
		check: finds(map[string]string{"/v": "dir 0755 0:0 writable", "/v/file": `file 0600 0:0 writable "text"`}),
	},
	{
		name:  "hostPath without a type where there is nothing",
		spec:  mountV + `volumes: [{name: v, hostPath: {path: "{{dir}}/new"}}]`,
		paths: []string{"/v"},
		check: finds(map[string]string{"/v": "dir 0755 0:0 writable"}),
	},
	{
		name: "hostPath Directory",
		spec: mountV + "volumes: [{name: v, hostPath: {path: '{{dir}}', type: Directory}}]\nsecurityContext: {fsGroup: 4321}",
		// It is the node's: no fsGroup gets it.
		paths: []string{"/v"},
		check: finds(map[string]string{"/v": "dir 0755 0:0 writable"}),
	},
	{
		name:   "hostPath Directory where there is nothing",
		spec:   mountV + `volumes: [{name: v, hostPath: {path: "{{dir}}/new", type: Directory}}]`,
		status: waitsFor("main", "ContainerCreating", `volume "v"`, "hostPath type check failed", "/new is not a directory"),
		events: has("FailedMount", `MountVolume.SetUp failed for volume "v" : hostPath type check failed: `, "/new is not a directory"),
	},
	{
		name:  "hostPath DirectoryOrCreate",
		spec:  mountV + `volumes: [{name: v, hostPath: {path: "{{dir}}/a/b", type: DirectoryOrCreate}}]`,
		paths: []string{"/v"},
		check: finds(map[string]string{"/v": "dir 0755 0:0 writable"}),
		node: func(p *pod, _ map[string]*inside.Report) error {
			_, err := os.ReadDir(filepath.Join(p.dir, "a", "b"))
			return err
		},
	},
	{
		name: "hostPath File",
		spec: mountV + `volumes: [{name: v, hostPath: {path: "{{dir}}/file", type: File}}]`,
		prepare: func(t *testing.T, p *pod) {
			check(t, os.WriteFile(filepath.Join(p.dir, "file"), []byte("text"), 0o640))
		},
		paths: []string{"/v"},
		check: finds(map[string]string{"/v": `file 0640 0:0 writable "text"`}),
	},
	{
		name:   "hostPath File where there is a directory",
		spec:   mountV + `volumes: [{name: v, hostPath: {path: "{{dir}}", type: File}}]`,
		events: has("FailedMount", `MountVolume.SetUp failed for volume "v" : hostPath type check failed: `, " is not a file"),
	},
	{
		name:  "hostPath FileOrCreate",
		spec:  mountV + `volumes: [{name: v, hostPath: {path: "{{dir}}/file", type: FileOrCreate}}]`,
		paths: []string{"/v"},
		check: finds(map[string]string{"/v": `file 0644 0:0 writable ""`}),
	},
	{
		name:    "hostPath Socket",
		spec:    mountV + `volumes: [{name: v, hostPath: {path: "{{dir}}/s", type: Socket}}]`,
		prepare: func(t *testing.T, p *pod) { listen(t, filepath.Join(p.dir, "s")) },
		paths:   []string{"/v"},
		check:   finds(map[string]string{"/v": "socket 0755 0:0"}),
	},
	{
		name:  "hostPath CharDevice",
		spec:  mountV + `volumes: [{name: v, hostPath: {path: /dev/null, type: CharDevice}}]`,
		paths: []string{"/v"},
		check: finds(map[string]string{"/v": "device 0666 0:0"}),
	},
	{
		name: "hostPath BlockDevice",
		spec: mountV + `volumes: [{name: v, hostPath: {path: "{{dir}}/b", type: BlockDevice}}]`,
		prepare: func(t *testing.T, p *pod) {
			check(t, unix.Mknod(filepath.Join(p.dir, "b"), unix.S_IFBLK|0o600, int(unix.Mkdev(7, 0))))
		},
		paths: []string{"/v"},
		check: finds(map[string]string{"/v": "device 0600 0:0"}),
	},
	{
		name:   "hostPath BlockDevice where there is a character device",
		spec:   mountV + `volumes: [{name: v, hostPath: {path: /dev/null, type: BlockDevice}}]`,
		events: has("FailedMount", `MountVolume.SetUp failed for volume "v" : hostPath type check failed: /dev/null is not a block device`),
	},
}

// listen makes a socket that is there until the test ends.
func listen(t *testing.T, path string) {
	t.Helper()
	// Its own path may be too long for the kernel.
	dir, err := os.Open(filepath.Dir(path))
	check(t, err)
	defer dir.Close()
	l, err := net.Listen("unix", filepath.Join("/proc/self/fd", strconv.Itoa(int(dir.Fd())), filepath.Base(path)))
	check(t, err)
	t.Cleanup(func() { check(t, l.Close()) })
}
