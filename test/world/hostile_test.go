package world

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstream/podstream/test/inside"
)

// A pod that tries to break out, or to harm the node, ends with a reason, leaves nothing, and affects no other pod.
func TestHostile(t *testing.T) {
	t.Parallel()
	on(t, latest, func(t *testing.T, b *bench) {
		bystander := newPod(t, b, "bystander")
		bystander.write("", `volumes: [{name: v, emptyDir: {medium: Memory, sizeLimit: 1Mi}}]`+mountV, nil, nil)
		before := bystander.awaitReady()
		t.Cleanup(func() { check(t, unchanged(before, b.pod(bystander.name))) })
		runOn(t, b, hostile)
		t.Run("a-volume-that-vanishes", func(t *testing.T) {
			t.Parallel()
			testVanishes(t, b)
		})
	})
}

var hostile = []row{
	{
		name: "subPath through a link out of the volume",
		spec: `
volumes: [{name: v, emptyDir: {}}]
initContainers: [{name: plant, args: [link, /etc, /v/out], volumeMounts: [{name: v, mountPath: /v}]}]
containers: [{name: main, volumeMounts: [{name: v, mountPath: /v, subPath: out}]}]`,
		status: waitsFor("main", "CreateContainerConfigError", "subPath", "not within volume path"),
	},
	{
		name: "subPath through a link upwards",
		spec: `
volumes: [{name: v, emptyDir: {}}]
initContainers: [{name: plant, args: [link, ../../../.., /v/out], volumeMounts: [{name: v, mountPath: /v}]}]
containers: [{name: main, volumeMounts: [{name: v, mountPath: /v, subPath: out/new}]}]`,
		status: waitsFor("main", "CreateContainerConfigError", "subPath", "not within volume path"),
	},
	{
		name: "subPath through a link within the volume",
		spec: `
volumes: [{name: v, emptyDir: {}}]
initContainers:
- {name: plant, args: [seq, write, /v/file, text, ;, link, file, /v/in], volumeMounts: [{name: v, mountPath: /v}]}
containers: [{name: main, volumeMounts: [{name: v, mountPath: /v, subPath: in}]}]`,
		paths: []string{"/v"},
		check: finds(map[string]string{"/v": `file 0644 0:0 writable "text"`}),
	},
	{
		name:    "subPath with dots",
		spec:    `{volumes: [{name: v, emptyDir: {}}], containers: [{name: main, volumeMounts: [{name: v, mountPath: /v, subPath: ../../x}]}]}`,
		refused: "subPath",
	},
	{
		name: "subPathExpr that becomes dots",
		spec: `
volumes: [{name: v, emptyDir: {}}]
containers:
- {name: main, env: [{name: UP, value: ../..}], volumeMounts: [{name: v, mountPath: /v, subPathExpr: $(UP)/etc}]}`,
		status: waitsFor("main", "CreateContainerConfigError", `must not contain ".."`),
	},
	{
		name: "env file through a link out of the volume",
		spec: `
volumes: [{name: v, emptyDir: {}}]
initContainers: [{name: plant, args: [link, /etc/os-release, /v/vars], volumeMounts: [{name: v, mountPath: /v}]}]
containers: [{name: main, env: [{name: A, valueFrom: {fileKeyRef: {volumeName: v, path: vars, key: NAME}}}]}]`,
		status: waitsFor("main", "CreateContainerConfigError", `env file "vars" of volume "v"`),
	},
	{
		name:    "configMap key with dots",
		beside:  []string{`{apiVersion: v1, kind: ConfigMap, metadata: {name: dots}, data: {"../x": y}}`},
		spec:    mountV + `volumes: [{name: v, configMap: {name: dots}}]`,
		refused: "data[../x]",
	},
	{
		name:    "configMap item with dots",
		spec:    mountV + `volumes: [{name: v, configMap: {name: dots, items: [{key: a, path: a/../../b}]}}]`,
		refused: "path",
	},
	{
		name:    "hostPath with dots",
		spec:    mountV + `volumes: [{name: v, hostPath: {path: "{{dir}}/../.."}}]`,
		refused: "hostPath.path",
	},
	{
		name:   "hostPath File of a directory",
		spec:   mountV + `volumes: [{name: v, hostPath: {path: "{{dir}}", type: Socket}}]`,
		status: waitsFor("main", "ContainerCreating", "hostPath type check failed", "is not a socket"),
	},
	{
		name:    "one mountPath twice",
		spec:    `{volumes: [{name: v, emptyDir: {}}], containers: [{name: main, volumeMounts: [{name: v, mountPath: /v}, {name: v, mountPath: /v}]}]}`,
		refused: "mountPath",
	},
	{
		name: "ten thousand variables",
		spec: "containers: [{name: main, env: [" + manyVariables(10_000) + "]}]",
		check: func(r *inside.Report) error {
			return errors.Join(same("the variables", len(r.Env), 10_000+3), env(map[string]string{"V0": "0", "V9999": "9999"})(r))
		},
	},
	{
		name:   "more variables than a process can have",
		spec:   "containers: [{name: main, env: [{name: A0, value: 0123456789012345}" + doublings(20) + "]}]",
		status: waitsFor("main", "CreateContainerConfigError", "environment variable A18", "more than the 6291456 bytes"),
	},
	{
		name:    "annotations of a mebibyte",
		meta:    "annotations: {a: " + strings.Repeat("x", 1<<20) + "}",
		spec:    "{}",
		refused: "metadata.annotations",
	},
	{
		name: "a full volume in memory",
		spec: `
restartPolicy: Never
volumes: [{name: v, emptyDir: {medium: Memory, sizeLimit: 64Ki}}]
containers:
- {name: main, args: [write, /v/big, ` + strings.Repeat("x", 100<<10) + `], terminationMessagePolicy: FallbackToLogsOnError, volumeMounts: [{name: v, mountPath: /v}]}`,
		status: func(p *v1.Pod) error {
			end := statusOf(p, "main").State.Terminated
			if p.Status.Phase != v1.PodFailed || end == nil || !strings.Contains(end.Message, "no space left on device") {
				return fmt.Errorf("it is %s: %+v", p.Status.Phase, end)
			}
			return nil
		},
	},
	{
		name: "a secret larger than the memory of the containers",
		beside: []string{
			`{apiVersion: v1, kind: Secret, metadata: {name: large}, stringData: {a: ` + strings.Repeat("x", 900<<10) + `}}`,
		},
		spec: `
volumes: [{name: v, secret: {secretName: large}}]
containers: [{name: main, resources: {limits: {memory: 512Ki}}, volumeMounts: [{name: v, mountPath: /v}]}]`,
		events: has("FailedMount", `MountVolume.SetUp failed for volume "v" : `, "no space left on device"),
	},
}

func manyVariables(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "{name: V%d, value: \"%[1]d\"}, ", i)
	}
	return b.String()
}

// doublings returns variables that each contain the previous one twice.
func doublings(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, ", {name: A%d, value: $(A%d)$(A%[2]d)}", i+1, i)
	}
	return b.String()
}

// testVanishes removes the volumes of a running container. The container keeps running. When it is started again, it
// waits for the volume that the node's owner must restore. podexecd restores its own volumes.
func testVanishes(t *testing.T, b *bench) {
	p := newPod(t, b, "vanishes")
	data := filepath.Join(p.dir, "data")
	check(t, os.Mkdir(data, 0o755))
	p.write("", `
volumes: [{name: h, hostPath: {path: "{{dir}}/data", type: Directory}}, {name: m, emptyDir: {medium: Memory, sizeLimit: 1Mi}}]
containers:
- {name: main, args: [seq, write, /m/file, text, ;, inspect, /h, /m], volumeMounts: [{name: h, mountPath: /h}, {name: m, mountPath: /m}]}`, nil, nil)
	before := p.awaitReady()
	tmpfs := b.KubeletDir("pods", string(before.UID), "volumes", "kubernetes.io~empty-dir", "m")
	check(t, unix.Unmount(tmpfs, unix.MNT_DETACH))
	check(t, os.Remove(data))
	check(t, unchanged(before, b.pod(p.name)))
	_, id, _ := strings.Cut(statusOf(before, "main").ContainerID, "://")
	_, err := b.CRI.StopContainer(p.ctx, &runtimeapi.StopContainerRequest{ContainerId: id})
	check(t, err)
	p.awaitEvents(has("FailedMount", `MountVolume.SetUp failed for volume "h" : hostPath type check failed`, "/data is not a directory"))
	check(t, os.Mkdir(data, 0o755))
	p.await("it runs again", func(pod *v1.Pod) error {
		if c := statusOf(pod, "main"); c.RestartCount == 0 || c.State.Running == nil {
			return fmt.Errorf("it is %+v after %d restarts", c.State, c.RestartCount)
		}
		return nil
	})
	r, err := p.report(b.pod(p.name), "main")
	check(t, err)
	check(t, errors.Join(finds(map[string]string{"/h": "dir 0755 0:0 writable", "/m/file": `file 0644 0:0 writable "text"`})(r),
		mounted("/m", "tmpfs", "size=1024k")(r)))
}
