package world

import (
	"errors"
	"strings"
	"testing"

	"github.com/podstream/podstream/test/inside"
)

// Volumes whose files have a source: ConfigMaps, Secrets, and the pod itself.
func TestVolumesOfObjects(t *testing.T) {
	t.Parallel()
	rows := make([]row, 0, len(objectVolumes))
	for _, r := range objectVolumes {
		r.ownNamespace, r.beside = true, []string{`
apiVersion: v1
kind: ConfigMap
metadata: {name: conf, namespace: "{{namespace}}"}
data: {a.conf: "a = 1\n", b: ""}
binaryData: {blob: AAEC}`, `
apiVersion: v1
kind: Secret
metadata: {name: cred, namespace: "{{namespace}}"}
data: {token: aHVzaA==}
stringData: {user: admin}`}
		if r.paths == nil {
			r.paths = ofV
		}
		rows = append(rows, r)
	}
	runRows(t, latest, rows)
}

// asFSGroup is the last line of a spec.
const asFSGroup = "\nsecurityContext: {fsGroup: 4321}"

var objectVolumes = []row{
	{
		name:  "configMap",
		spec:  mountV + `volumes: [{name: v, configMap: {name: conf}}]`,
		check: holds(map[string]string{"a.conf": `0644 0:0 "a = 1\n"`, "b": `0644 0:0 ""`, "blob": `0644 0:0 "\x00\x01\x02"`}),
	},
	{
		name:  "configMap items",
		spec:  mountV + `volumes: [{name: v, configMap: {name: conf, items: [{key: a.conf, path: etc/app/a.conf}, {key: blob, path: x, mode: 0o400}]}}]`,
		check: holds(map[string]string{"etc/app/a.conf": `0644 0:0 "a = 1\n"`, "x": `0400 0:0 "\x00\x01\x02"`}),
	},
	{
		name:  "configMap defaultMode",
		spec:  mountV + `volumes: [{name: v, configMap: {name: conf, defaultMode: 0o440, items: [{key: b, path: b}, {key: a.conf, path: a, mode: 0o755}]}}]`,
		check: holds(map[string]string{"b": `0440 0:0 ""`, "a": `0755 0:0 "a = 1\n"`}),
	},
	{
		name:  "configMap optional",
		spec:  mountV + `volumes: [{name: v, configMap: {name: nowhere, optional: true}}]`,
		check: holds(map[string]string{}),
	},
	{
		name:  "configMap optional key",
		spec:  mountV + `volumes: [{name: v, configMap: {name: conf, optional: true, items: [{key: b, path: b}, {key: nowhere, path: c}]}}]`,
		check: holds(map[string]string{"b": `0644 0:0 ""`}),
	},
	{
		name:   "configMap without the key",
		spec:   mountV + `volumes: [{name: v, configMap: {name: conf, items: [{key: nowhere, path: c}]}}]`,
		status: waitsFor("main", "ContainerCreating", `configmap "conf" references non-existent config key: nowhere`),
		events: has("FailedMount", `MountVolume.SetUp failed for volume "v" : configmap "conf" references non-existent config key: nowhere`),
	},
	{
		name:  "configMap fsGroup",
		spec:  mountV + `volumes: [{name: v, configMap: {name: conf, items: [{key: b, path: b, mode: 0o600}]}}]` + asFSGroup,
		check: holds(map[string]string{"b": `0640 0:4321 ""`}),
	},
	{
		name: "configMap fsGroup lets another user read",
		spec: mountV + `volumes: [{name: v, configMap: {name: conf, defaultMode: 0o600}}]` +
			"\nsecurityContext: {fsGroup: 4321, runAsUser: 1000}",
		check: holds(map[string]string{"a.conf": `0640 0:4321 "a = 1\n"`, "b": `0640 0:4321 ""`, "blob": `0640 0:4321 "\x00\x01\x02"`}),
	},
	{
		name: "configMap subPath",
		spec: `
volumes: [{name: v, configMap: {name: conf}}]
containers: [{name: main, volumeMounts: [{name: v, mountPath: /etc/app.conf, subPath: a.conf}]}]`,
		paths: []string{"/etc/app.conf"},
		check: finds(map[string]string{"/etc/app.conf": `file 0644 0:0 "a = 1\n"`}),
	},
	{
		name:  "secret",
		spec:  mountV + `volumes: [{name: v, secret: {secretName: cred}}]`,
		check: both(holds(map[string]string{"token": `0644 0:0 "hush"`, "user": `0644 0:0 "admin"`}), mounted("/v", "tmpfs")),
	},
	{
		name:  "secret items and modes",
		spec:  mountV + `volumes: [{name: v, secret: {secretName: cred, defaultMode: 0o400, items: [{key: user, path: a/b}, {key: token, path: t, mode: 0o444}]}}]`,
		check: holds(map[string]string{"a/b": `0400 0:0 "admin"`, "t": `0444 0:0 "hush"`}),
	},
	{
		name:  "secret fsGroup",
		spec:  mountV + `volumes: [{name: v, secret: {secretName: cred, defaultMode: 0o400, items: [{key: user, path: u}]}}]` + asFSGroup,
		check: both(holds(map[string]string{"u": `0440 0:4321 "admin"`}), mounted("/v", "tmpfs")),
	},
	{
		name:  "secret optional",
		spec:  mountV + `volumes: [{name: v, secret: {secretName: nowhere, optional: true}}]`,
		check: holds(map[string]string{}),
	},
	{
		name:  "secret optional key",
		spec:  mountV + `volumes: [{name: v, secret: {secretName: cred, optional: true, items: [{key: nowhere, path: none}, {key: user, path: u}]}}]`,
		check: holds(map[string]string{"u": `0644 0:0 "admin"`}),
	},
	{
		name:   "secret without the key",
		spec:   mountV + `volumes: [{name: v, secret: {secretName: cred, items: [{key: nowhere, path: c}]}}]`,
		events: has("FailedMount", `MountVolume.SetUp failed for volume "v" : secret "cred" references non-existent secret key: nowhere`),
	},
	{
		name: "downwardAPI fields",
		meta: `{labels: {tier: web, app: shop}, annotations: {example.com/note: "two\nlines"}, uid: 0123-fields}`,
		spec: mountV + `
volumes:
- name: v
  downwardAPI:
    items:
    - {path: name, fieldRef: {fieldPath: metadata.name}}
    - {path: namespace, fieldRef: {fieldPath: metadata.namespace}}
    - {path: uid, fieldRef: {fieldPath: metadata.uid}}
    - {path: labels/all, fieldRef: {fieldPath: metadata.labels}}
    - {path: labels/tier, mode: 0o400, fieldRef: {fieldPath: "metadata.labels['tier']"}}
    - {path: annotations, fieldRef: {fieldPath: metadata.annotations}}
    - {path: note, fieldRef: {fieldPath: "metadata.annotations['example.com/note']"}}`,
		node: func(p *pod, found map[string]*inside.Report) error {
			r := found["main"]
			all := r.Files["/v/..data/annotations"].Content
			// The pod also has an annotation of its source.
			if !strings.Contains(all, `example.com/note="two\nlines"`+"\n") && !strings.HasPrefix(all, `example.com/note="two\nlines"`) {
				return errors.New("metadata.annotations is " + all)
			}
			f := r.Files["/v/..data/annotations"]
			f.Content = ""
			r.Files["/v/..data/annotations"] = f
			return holds(map[string]string{
				"name": `0644 0:0 "` + p.name + `"`, "namespace": `0644 0:0 "` + p.namespace + `"`, "uid": `0644 0:0 "0123-fields"`,
				"labels/all": `0644 0:0 "app=\"shop\"\ntier=\"web\""`, "labels/tier": `0400 0:0 "web"`, "note": `0644 0:0 "two\nlines"`,
				"annotations": `0644 0:0 ""`,
			})(r)
		},
	},
	{
		name: "downwardAPI resources",
		spec: `
volumes:
- name: v
  downwardAPI:
    defaultMode: 0o444
    items:
    - {path: cpu, resourceFieldRef: {containerName: main, resource: limits.cpu, divisor: 1m}}
    - {path: cores, resourceFieldRef: {containerName: main, resource: limits.cpu}}
    - {path: memory, resourceFieldRef: {containerName: main, resource: requests.memory, divisor: 1Mi}}
    - {path: other, resourceFieldRef: {containerName: other, resource: limits.memory}}
containers:
- {name: main, volumeMounts: [{name: v, mountPath: /v}], resources: {limits: {cpu: 1500m}, requests: {cpu: 100m, memory: 64Mi}}}
- {name: other, args: [sleep], resources: {limits: {memory: 32Mi}}}`,
		check: holds(map[string]string{"cpu": `0444 0:0 "1500"`, "cores": `0444 0:0 "2"`, "memory": `0444 0:0 "64"`, "other": `0444 0:0 "33554432"`}),
	},
	{
		name:  "downwardAPI fsGroup",
		meta:  `uid: 4-5-6`,
		spec:  mountV + `volumes: [{name: v, downwardAPI: {defaultMode: 0o600, items: [{path: uid, fieldRef: {fieldPath: metadata.uid}}]}}]` + asFSGroup,
		check: holds(map[string]string{"uid": `0640 0:4321 "4-5-6"`}),
	},
	{
		name: "projected",
		meta: `labels: {app: shop}`,
		spec: mountV + `
volumes:
- name: v
  projected:
    defaultMode: 0o440
    sources:
    - configMap: {name: conf, items: [{key: a.conf, path: c/a}, {key: b, path: both}]}
    - secret: {name: cred, items: [{key: user, path: c/user, mode: 0o400}]}
    - downwardAPI: {items: [{path: labels, fieldRef: {fieldPath: metadata.labels}}]}
    - secret: {name: nowhere, optional: true}
    - configMap: {name: conf, optional: true, items: [{key: nowhere, path: none}]}
    - secret: {name: cred, items: [{key: token, path: token}]}`,
		check: both(mounted("/v", "tmpfs"), holds(map[string]string{
			"c/a": `0440 0:0 "a = 1\n"`, "c/user": `0400 0:0 "admin"`, "labels": `0440 0:0 "app=\"shop\""`, "both": `0440 0:0 ""`,
			"token": `0440 0:0 "hush"`,
		})),
	},
	{
		name:   "projected source that is missing",
		spec:   mountV + `volumes: [{name: v, projected: {sources: [{configMap: {name: conf}}, {secret: {name: nowhere}}]}}]`,
		events: has("FailedMount", `MountVolume.SetUp failed for volume "v" : secret "nowhere" not found`),
	},
	{
		name:  "projected fsGroup",
		spec:  mountV + `volumes: [{name: v, projected: {sources: [{configMap: {name: conf, items: [{key: b, path: b, mode: 0o600}]}}]}}]` + asFSGroup,
		check: both(holds(map[string]string{"b": `0640 0:4321 ""`}), mounted("/v", "tmpfs")),
	},
	{
		name:    "projected serviceAccountToken",
		spec:    mountV + `volumes: [{name: v, projected: {sources: [{serviceAccountToken: {path: token}}]}}]`,
		refused: "serviceAccountToken",
	},
}
