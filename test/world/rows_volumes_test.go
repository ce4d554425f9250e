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

var mounts = []row{
	{
		name: "readOnly",
		spec: `
volumes: [{name: v, emptyDir: {}}]
containers:
- {name: main, volumeMounts: [{name: v, mountPath: /r, readOnly: true}, {name: v, mountPath: /w}]}`,
		paths: []string{"/r", "/w"},
		check: finds(map[string]string{"/r": "dir 0777 0:0", "/w": "dir 0777 0:0 writable"}),
	},
	{
		name: "mountPath of a file of the image",
		spec: `
volumes: [{name: v, hostPath: {path: "{{dir}}/resolv", type: FileOrCreate}}]
containers: [{name: main, volumeMounts: [{name: v, mountPath: /etc/resolv.conf}]}]`,
		paths: []string{"/etc/resolv.conf"},
		check: finds(map[string]string{"/etc/resolv.conf": `file 0644 0:0 writable ""`}),
	},
	{
		name: "subPath",
		spec: `
volumes: [{name: v, emptyDir: {}}]
initContainers: [{name: first, args: [write, /v/a, text], volumeMounts: [{name: v, mountPath: /v}]}]
containers:
- name: main
  volumeMounts: [{name: v, mountPath: /v}, {name: v, mountPath: /new, subPath: b/c}, {name: v, mountPath: /a, subPath: a, readOnly: true}]`,
		paths: []string{"/v", "/new", "/a"},
		check: finds(map[string]string{
			"/v/b/c": "dir 0777 0:0 writable", "/new": "dir 0777 0:0 writable", "/v/a": `file 0644 0:0 writable "text"`, "/a": `file 0644 0:0 "text"`,
		}),
	},
	{
		name: "subPath of a hostPath",
		spec: `
volumes: [{name: v, hostPath: {path: "{{dir}}"}}]
containers: [{name: main, volumeMounts: [{name: v, mountPath: /v, subPath: logs/app}]}]`,
		paths: []string{"/v"},
		check: finds(map[string]string{"/v": "dir 0755 0:0 writable"}),
		node: func(p *pod, _ map[string]*inside.Report) error {
			_, err := os.Stat(filepath.Join(p.dir, "logs", "app"))
			return err
		},
	},
	{
		name: "subPathExpr",
		spec: `
volumes: [{name: v, emptyDir: {}}]
containers:
- name: main
  env: [{name: POD, valueFrom: {fieldRef: {fieldPath: metadata.name}}}, {name: TEAM, value: blue}]
  volumeMounts: [{name: v, mountPath: /all}, {name: v, mountPath: /v, subPathExpr: $(TEAM)/$(POD)-$$(X)}]`,
		paths: []string{"/all"},
		node: func(p *pod, found map[string]*inside.Report) error {
			return errors.Join(
				finds(map[string]string{"/all/blue/" + p.name + "-$(X)": "dir 0777 0:0 writable"})(found["main"]), mounted("/v", "")(found["main"]))
		},
	},
	{
		name: "subPathExpr of what has no value",
		spec: `
volumes: [{name: v, emptyDir: {}}]
containers: [{name: main, volumeMounts: [{name: v, mountPath: /v, subPathExpr: a/$(NOTHING)}]}]`,
		status: waitsFor("main", "CreateContainerConfigError", "subPathExpr", "NOTHING has no value"),
	},
	{
		name: "mountPropagation",
		spec: `
volumes: [{name: v, hostPath: {path: "{{dir}}"}}]
containers:
- name: main
  securityContext: {privileged: true}
  volumeMounts:
  - {name: v, mountPath: /plain}
  - {name: v, mountPath: /none, mountPropagation: None}
  - {name: v, mountPath: /down, mountPropagation: HostToContainer}
  - {name: v, mountPath: /both, mountPropagation: Bidirectional}`,
		prepare: func(t *testing.T, p *pod) { mountAt(t, p.dir) },
		check: both(propagates("/plain", "private"), propagates("/none", "private"), propagates("/down", "master"),
			propagates("/both", "shared")),
		node: seesMountOfTheNode,
	},
	{
		name: "recursiveReadOnly Enabled",
		spec: `
volumes: [{name: v, emptyDir: {}}]
containers: [{name: main, volumeMounts: [{name: v, mountPath: /v, readOnly: true, recursiveReadOnly: Enabled}]}]`,
		check: mounted("/v", "", "ro"),
		needs: recursiveReadOnly, golden: "mounts",
	},
	{
		name: "recursiveReadOnly IfPossible",
		spec: `
volumes: [{name: v, emptyDir: {}}]
containers: [{name: main, volumeMounts: [{name: v, mountPath: /v, readOnly: true, recursiveReadOnly: IfPossible}]}]`,
		check: mounted("/v", "", "ro"),
	},
	{
		name: "volumes in each other",
		beside: []string{
			"{apiVersion: v1, kind: ConfigMap, metadata: {name: nested}, data: {key: c}}",
			"{apiVersion: v1, kind: Secret, metadata: {name: nested}, stringData: {key: s}}",
		},
		spec: `
volumes: [{name: e, emptyDir: {}}, {name: f, emptyDir: {}}, {name: c, configMap: {name: nested}}, {name: s, secret: {secretName: nested}}]
containers:
- name: main
  volumeMounts:
  - {name: s, mountPath: /e/c/in/s}
  - {name: f, mountPath: /s/f}
  - {name: c, mountPath: /e/c}
  - {name: s, mountPath: /s}
  - {name: e, mountPath: /e}`,
		paths: []string{"/e/c/key", "/e/c/in/s/key", "/e", "/s/key", "/s/f"},
		check: finds(map[string]string{
			"/e": "dir 0777 0:0 writable", "/e/c/key": "link to ..data/key", "/e/c/in/s/key": "link to ..data/key",
			"/s/key": "link to ..data/key", "/s/f": "dir 0777 0:0 writable",
		}),
	},
	{
		name:  "image volume",
		spec:  mountV + `volumes: [{name: v, image: {reference: "localhost/podstream-sample:dev", pullPolicy: Never}}]`,
		check: mounted("/v", "", "ro"),
		needs: imageVolumes, golden: "mount-of-an-image",
	},
	{
		name:    "volumes that need an API server",
		spec:    mountV + `volumes: [{name: v, persistentVolumeClaim: {claimName: c}}]`,
		refused: "persistentVolumeClaim",
	},
	{
		name: "volumeDevices",
		spec: `
volumes: [{name: v, hostPath: {path: /dev/null}}]
containers: [{name: main, volumeDevices: [{name: v, devicePath: /dev/x}]}]`,
		refused: "volumeDevices",
	},
}

// mountAt mounts a file system on the directory, shared with who is told of it, until the test ends.
func mountAt(t *testing.T, dir string) {
	t.Helper()
	check(t, unix.Mount("tmpfs", dir, "tmpfs", 0, ""))
	t.Cleanup(func() { check(t, unix.Unmount(dir, unix.MNT_DETACH)) })
	check(t, unix.Mount("", dir, "", unix.MS_SHARED, ""))
}

// seesMountOfTheNode: what the node mounts in the volume after the container has started is seen where it propagates, and nowhere else.
func seesMountOfTheNode(p *pod, _ map[string]*inside.Report) error {
	late := filepath.Join(p.dir, "late")
	if err := errors.Join(os.Mkdir(late, 0o755), unix.Mount("tmpfs", late, "tmpfs", 0, "")); err != nil {
		return err
	}
	err := os.WriteFile(filepath.Join(late, "file"), nil, 0o644)
	for dir, want := range map[string]int32{"/plain": 1, "/none": 1, "/down": 0, "/both": 0} {
		_, code, execErr := p.exec("main", "/sample", "exists", dir+"/late/file")
		err = errors.Join(err, execErr, same("the exit code of exists "+dir, code, want))
	}
	return errors.Join(err, unix.Unmount(late, unix.MNT_DETACH))
}
