package world

import (
	"fmt"
	"os"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
)

// updateTimeout is the time limit for a change to reach a container, on a busy machine. With the kubelet it can take two
// minutes.
const updateTimeout = 45 * time.Second

// The files of a ConfigMap and a Secret in a running container change soon after the manifest, atomically, and without
// a restart. Variables and subPaths, which are set at the start, stay.
func TestUpdateInPlace(t *testing.T) {
	t.Parallel()
	on(t, latest, func(t *testing.T, b *bench) {
		p := newPod(t, b, "update in place")
		write := func(version int) {
			p.write("", `
volumes: [{name: c, configMap: {name: fresh}}, {name: s, secret: {secretName: fresh}}, {name: p, projected: {sources: [{configMap: {name: fresh}}]}}]
containers:
- name: c
  args: [follow, /v]
  env: [{name: A, valueFrom: {configMapKeyRef: {name: fresh, key: a}}}]
  volumeMounts: [{name: c, mountPath: /v}, {name: c, mountPath: /at-start, subPath: a}]
- {name: s, args: [follow, /v], volumeMounts: [{name: s, mountPath: /v}]}
- {name: p, args: [follow, /v], volumeMounts: [{name: p, mountPath: /v}]}`, []string{
				fmt.Sprintf(`{apiVersion: v1, kind: ConfigMap, metadata: {name: fresh}, data: {a: "%d", b: "%[1]d", c: "%[1]d"}}`, version),
				fmt.Sprintf(`{apiVersion: v1, kind: Secret, metadata: {name: fresh}, stringData: {a: "%d", b: "%[1]d", c: "%[1]d"}}`, version),
			}, nil)
		}
		write(1)
		before := p.awaitReady()
		logs := map[string]*log{}
		for _, name := range []string{"c", "s", "p"} {
			l, err := p.followLog(before, name)
			check(t, err)
			defer l.close()
			logs[name] = l
		}
		for version := 1; version <= 4; version++ {
			began := time.Now()
			if version > 1 {
				write(version)
			}
			for name, l := range logs {
				line, err := l.next()
				check(t, err)
				check(t, same("what "+name+" sees", string(line), fmt.Sprintf(`a="%d" b="%[1]d" c="%[1]d"`, version)))
			}
			if took := time.Since(began); version > 1 && took > updateTimeout {
				t.Errorf("version %d was seen after %v", version, took)
			}
		}
		for command, want := range map[string]string{"/at-start": "1", "/v/a": "4"} {
			out, _, err := p.exec("c", "/sample", "cat", command)
			check(t, err)
			check(t, same(command, out, want))
		}
		check(t, unchanged(before, b.pod(p.name)))
	})
}

// unchanged returns nil if the pod and its containers are the same as before.
func unchanged(before, now *v1.Pod) error {
	if now == nil {
		return fmt.Errorf("pod %s is gone", before.Name)
	}
	ids := func(p *v1.Pod) string {
		out := string(p.UID)
		for _, c := range p.Status.ContainerStatuses {
			out += fmt.Sprintf(" %s %d", c.ContainerID, c.RestartCount)
		}
		return out
	}
	return same("the pod with its containers", ids(now), ids(before))
}

// A pod waits for the objects of its volumes and variables, reports which one is missing, and starts when it exists.
func TestMissingObject(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, spec, object string
		status             func(*v1.Pod) error
		reason, message    string
	}{
		{
			"late configMap volume", mountV + `volumes: [{name: v, configMap: {name: late-conf}}]`,
			`{apiVersion: v1, kind: ConfigMap, metadata: {name: late-conf}, data: {a: x}}`,
			waitsFor("main", "ContainerCreating", `configmap "late-conf" not found`),
			"FailedMount", `MountVolume.SetUp failed for volume "v" : configmap "late-conf" not found`,
		},
		{
			"late secret volume", mountV + `volumes: [{name: v, projected: {sources: [{secret: {name: late-cred}}]}}]`,
			`{apiVersion: v1, kind: Secret, metadata: {name: late-cred}, stringData: {a: x}}`,
			waitsFor("main", "ContainerCreating", `secret "late-cred" not found`),
			"FailedMount", `MountVolume.SetUp failed for volume "v" : secret "late-cred" not found`,
		},
		{
			"late configMap variable", `containers: [{name: main, env: [{name: A, valueFrom: {configMapKeyRef: {name: late-env, key: a}}}]}]`,
			`{apiVersion: v1, kind: ConfigMap, metadata: {name: late-env}, data: {a: x}}`,
			waitsFor("main", "CreateContainerConfigError", `configmap "late-env" not found`),
			"Failed", `Error: configmap "late-env" not found`,
		},
		{
			"late secret variables", `containers: [{name: main, envFrom: [{secretRef: {name: late-envs}}]}]`,
			`{apiVersion: v1, kind: Secret, metadata: {name: late-envs}, stringData: {A: x}}`,
			waitsFor("main", "CreateContainerConfigError", `secret "late-envs" not found`),
			"Failed", `Error: secret "late-envs" not found`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			on(t, latest, func(t *testing.T, b *bench) {
				p := newPod(t, b, c.name)
				p.write("", c.spec, nil, []string{"/v/a"})
				p.await("it waits", c.status)
				p.awaitEvents(has(c.reason, c.message))
				file := "object-" + p.file
				check(t, b.Write(file, c.object))
				t.Cleanup(func() { check(t, os.Remove(b.Path("manifests", file))) })
				began := time.Now()
				r := p.reports()["main"]
				if took := time.Since(began); took > updateTimeout {
					t.Errorf("it started %v after the object had come", took)
				}
				check(t, same("what came", r.Files["/v/a"].Content+r.Env["A"], "x"))
			})
		})
	}
}
