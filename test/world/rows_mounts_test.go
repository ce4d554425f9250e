package world

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/podstream/podstream/test/inside"
)

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
		name: "recursiveReadOnly Enabled",
		spec: `
volumes: [{name: v, emptyDir: {}}]
containers: [{name: main, volumeMounts: [{name: v, mountPath: /v, readOnly: true, recursiveReadOnly: Enabled}]}]`,
		check: mounted("/v", "", "ro"),
		needs: recursiveReadOnly, golden: "mounts",
	},
	{
		name: "recursiveReadOnly of a volume with a mount in it",
		spec: `
volumes: [{name: v, hostPath: {path: "{{dir}}"}}]
containers:
- {name: recursive, volumeMounts: [{name: v, mountPath: /v, readOnly: true, recursiveReadOnly: Enabled}]}
- {name: plain, volumeMounts: [{name: v, mountPath: /v, readOnly: true}]}`,
		paths: []string{"/v"},
		prepare: func(t *testing.T, p *pod) {
			inner := filepath.Join(p.dir, "inner")
			check(t, os.Mkdir(inner, 0o755))
			mountAt(t, inner)
		},
		all: func(found map[string]*inside.Report) error {
			return errors.Join(
				finds(map[string]string{"/v": "dir 0755 0:0", "/v/inner": "dir 1777 0:0"})(found["recursive"]),
				finds(map[string]string{"/v": "dir 0755 0:0", "/v/inner": "dir 1777 0:0 writable"})(found["plain"]))
		},
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
		node: func(p *pod, _ map[string]*inside.Report) error {
			_, code, err := p.exec("main", "/sample", "exists", "/v/sample")
			return errors.Join(err, same("the exit code of the search for the image's file", code, 0))
		},
		needs: imageVolumes, golden: "mount-of-an-image",
	},
	{
		name:    "volumes that need an API server",
		spec:    mountV + `volumes: [{name: v, csi: {driver: d.example.com}}]`,
		refused: "csi",
	},
	{
		name: "claim beside the manifest",
		beside: []string{
			"{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: world}, " +
				"spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Mi}}}}",
		},
		spec:  mountV + `volumes: [{name: v, persistentVolumeClaim: {claimName: world}}]`,
		paths: []string{"/v"},
		check: finds(map[string]string{"/v": "dir 0755 0:0 writable"}),
	},
	{
		name: "volumeDevices",
		spec: `
volumes: [{name: v, hostPath: {path: /dev/null}}]
containers: [{name: main, volumeDevices: [{name: v, devicePath: /dev/x}]}]`,
		refused: "volumeDevices",
	},
}
