package world

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// testFSGroupChangePolicy: the policy is for volumes that outlive their pod. With either policy, files of containers
// in an ephemeral volume get the group when the volume is created, and then keep the owner that containers give them.
// Files that podexecd writes always have the group. A restart of podexecd changes nothing.
func testFSGroupChangePolicy(t *testing.T, b *bench) {
	pods := map[*pod]*v1.Pod{}
	for _, policy := range []v1.PodFSGroupChangePolicy{v1.FSGroupChangeAlways, v1.FSGroupChangeOnRootMismatch} {
		p := newPod(t, b, "fsGroupChangePolicy "+string(policy))
		p.ownNamespace()
		p.write("", `
securityContext: {fsGroup: 4321, fsGroupChangePolicy: `+string(policy)+`}
volumes: [{name: file, emptyDir: {}}, {name: root, emptyDir: {}}, {name: mem, emptyDir: {medium: Memory}}, {name: conf, configMap: {name: c}}]
initContainers:
- name: first
  args: [seq, write, /file/f, x, ;, write, /root/f, x, ;, write, /mem/f, x]
  volumeMounts: [{name: file, mountPath: /file}, {name: root, mountPath: /root}, {name: mem, mountPath: /mem}]
containers:
- name: main
  volumeMounts:
  - {name: file, mountPath: /file}
  - {name: root, mountPath: /root}
  - {name: mem, mountPath: /mem}
  - {name: conf, mountPath: /conf}`,
			[]string{"{apiVersion: v1, kind: ConfigMap, metadata: {name: c, namespace: '{{namespace}}'}, data: {f: x}}"},
			[]string{"/file", "/root", "/mem", "/conf/..data/."})
		found := p.reports()["main"]
		check(t, finds(map[string]string{
			"/file": "dir 2777 0:4321 writable", "/file/f": `file 0644 0:4321 writable "x"`,
			"/root": "dir 2777 0:4321 writable", "/root/f": `file 0644 0:4321 writable "x"`,
			"/mem": "dir 3777 0:4321 writable", "/mem/f": `file 0644 0:4321 writable "x"`,
			"/conf/..data/f": `file 0644 0:4321 "x"`,
		})(found))
		pods[p] = b.pod(p.name)
	}

	// As a container that runs as root could do.
	for p, pod := range pods {
		for path, mode := range map[string]os.FileMode{
			"empty-dir/file/f": 0o600, "empty-dir/root": 0o700, "empty-dir/root/f": 0o600, "empty-dir/mem/f": 0o600, "configmap/conf/..data/f": 0o600,
		} {
			path = p.b.KubeletDir("pods", string(pod.UID), "volumes", "kubernetes.io~"+path)
			check(t, errors.Join(os.Chown(path, 0, 0), os.Chmod(path, mode)))
		}
	}
	check(t, errors.Join(b.Podexecd.Kill(), b.Podexecd.Start()))
	for p, pod := range pods {
		_, id, _ := strings.Cut(statusOf(pod, "main").ContainerID, "://")
		_, err := b.CRI.StopContainer(p.ctx, &runtimeapi.StopContainerRequest{ContainerId: id})
		check(t, err)
		again := p.await("it runs again", func(pod *v1.Pod) error {
			if c := statusOf(pod, "main"); c.RestartCount == 0 || c.State.Running == nil {
				return fmt.Errorf("it is %+v after %d restarts", c.State, c.RestartCount)
			}
			return nil
		})
		r, err := p.report(again, "main")
		check(t, err)
		check(t, finds(map[string]string{
			"/file": "dir 2777 0:4321 writable", "/file/f": `file 0600 0:0 writable "x"`,
			"/root": "dir 0700 0:0 writable", "/root/f": `file 0600 0:0 writable "x"`,
			"/mem": "dir 3777 0:4321 writable", "/mem/f": `file 0600 0:0 writable "x"`,
			"/conf/..data/f": `file 0644 0:4321 "x"`,
		})(r))
	}
}
