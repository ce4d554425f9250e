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
	runRows(t, containerds, slices.Concat(emptyDirs, hostPaths, mounts))
}

// mountV is a container with the volume v mounted at /v.
const mountV = `
containers: [{name: main, volumeMounts: [{name: v, mountPath: /v}]}]
`

var emptyDirs = []row{
	{
		name: "emptyDir of each kind",
		spec: `
volumes:
- {name: disk, emptyDir: {}}
- {name: mode, emptyDir: {mode: 0o750}}
- {name: memory, emptyDir: {medium: Memory}}
- {name: limited, emptyDir: {medium: Memory, sizeLimit: 2Mi}}
containers:
- name: main
  volumeMounts:
  - {name: disk, mountPath: /v/disk}
  - {name: mode, mountPath: /v/mode}
  - {name: memory, mountPath: /v/memory}
  - {name: limited, mountPath: /v/limited}`,
		paths: []string{"/v"},
		check: both(finds(map[string]string{
			"/v/disk": "dir 0777 0:0 writable", "/v/mode": "dir 0750 0:0 writable", "/v/memory": "dir 1777 0:0 writable",
			"/v/limited": "dir 1777 0:0 writable",
		}), mounted("/v/memory", "tmpfs"), mounted("/v/limited", "tmpfs", "size=2048k")),
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
		name: "fsGroup gets an emptyDir and what a container makes in it",
		spec: `
securityContext: {fsGroup: 4321, runAsUser: 1000}
volumes: [{name: disk, emptyDir: {}}, {name: mode, emptyDir: {mode: 0o700}}, {name: memory, emptyDir: {medium: Memory}}]
initContainers:
- name: first
  args: [seq, write, /disk/new, text, ;, write, /memory/new, text]
  volumeMounts: [{name: disk, mountPath: /disk}, {name: memory, mountPath: /memory}]
containers:
- name: main
  volumeMounts: [{name: disk, mountPath: /v/disk}, {name: mode, mountPath: /v/mode}, {name: memory, mountPath: /v/memory}]`,
		paths: []string{"/v"},
		check: finds(map[string]string{
			"/v/disk": "dir 2777 0:4321 writable", "/v/disk/new": `file 0644 1000:4321 writable "text"`, "/v/mode": "dir 2770 0:4321 writable",
			"/v/memory": "dir 3777 0:4321 writable", "/v/memory/new": `file 0644 1000:4321 writable "text"`,
		}),
	},
}

var hostPaths = []row{
	{
		name: "hostPath of each type",
		// The files belong to the node, so fsGroup doesn't change them.
		spec: `
securityContext: {fsGroup: 4321}
volumes:
- {name: any, hostPath: {path: "{{dir}}/any"}}
- {name: nothing, hostPath: {path: "{{dir}}/nothing"}}
- {name: dir, hostPath: {path: "{{dir}}/dir", type: Directory}}
- {name: new-dir, hostPath: {path: "{{dir}}/a/b", type: DirectoryOrCreate}}
- {name: file, hostPath: {path: "{{dir}}/file", type: File}}
- {name: new-file, hostPath: {path: "{{dir}}/new-file", type: FileOrCreate}}
- {name: socket, hostPath: {path: "{{dir}}/socket", type: Socket}}
- {name: char, hostPath: {path: /dev/null, type: CharDevice}}
- {name: block, hostPath: {path: "{{dir}}/block", type: BlockDevice}}
containers:
- name: main
  volumeMounts:
  - {name: any, mountPath: /v/any}
  - {name: nothing, mountPath: /v/nothing}
  - {name: dir, mountPath: /v/dir}
  - {name: new-dir, mountPath: /v/new-dir}
  - {name: file, mountPath: /v/file}
  - {name: new-file, mountPath: /v/new-file}
  - {name: socket, mountPath: /v/socket}
  - {name: char, mountPath: /v/char}
  - {name: block, mountPath: /v/block}`,
		prepare: func(t *testing.T, p *pod) {
			in := func(name string) string { return filepath.Join(p.dir, name) }
			check(t, errors.Join(os.Mkdir(in("any"), 0o755), os.WriteFile(in("any/file"), []byte("text"), 0o600), os.Mkdir(in("dir"), 0o755),
				os.WriteFile(in("file"), []byte("text"), 0o640), unix.Mknod(in("block"), unix.S_IFBLK|0o600, int(unix.Mkdev(7, 0)))))
			listen(t, in("socket"))
		},
		paths: []string{"/v"},
		check: finds(map[string]string{
			"/v/any": "dir 0755 0:0 writable", "/v/any/file": `file 0600 0:0 writable "text"`, "/v/nothing": "dir 0755 0:0 writable",
			"/v/dir": "dir 0755 0:0 writable", "/v/new-dir": "dir 0755 0:0 writable", "/v/file": `file 0640 0:0 writable "text"`,
			"/v/new-file": `file 0644 0:0 writable ""`, "/v/socket": "socket 0755 0:0", "/v/char": "device 0666 0:0", "/v/block": "device 0600 0:0",
		}),
		node: func(p *pod, _ map[string]*inside.Report) error {
			_, err := os.ReadDir(filepath.Join(p.dir, "a", "b"))
			return err
		},
	},
	{
		name:   "hostPath Directory where there is nothing",
		spec:   mountV + `volumes: [{name: v, hostPath: {path: "{{dir}}/new", type: Directory}}]`,
		status: waitsFor("main", "ContainerCreating", `volume "v"`, "hostPath type check failed", "/new is not a directory"),
		events: has("FailedMount", `MountVolume.SetUp failed for volume "v" : hostPath type check failed`, "/new is not a directory"),
	},
	{
		name:   "hostPath File where there is a directory",
		spec:   mountV + `volumes: [{name: v, hostPath: {path: "{{dir}}", type: File}}]`,
		events: has("FailedMount", `MountVolume.SetUp failed for volume "v" : hostPath type check failed: `, " is not a file"),
	},
	{
		name:   "hostPath BlockDevice where there is a character device",
		spec:   mountV + `volumes: [{name: v, hostPath: {path: /dev/null, type: BlockDevice}}]`,
		events: has("FailedMount", `MountVolume.SetUp failed for volume "v" : hostPath type check failed: /dev/null is not a block device`),
	},
}

// listen creates a socket that exists until the test ends.
func listen(t *testing.T, path string) {
	t.Helper()
	// The socket's absolute path may be too long for the kernel.
	dir, err := os.Open(filepath.Dir(path))
	check(t, err)
	defer dir.Close()
	l, err := net.Listen("unix", filepath.Join("/proc/self/fd", strconv.Itoa(int(dir.Fd())), filepath.Base(path)))
	check(t, err)
	t.Cleanup(func() { check(t, l.Close()) })
}
