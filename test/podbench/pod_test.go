package podbench

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/test/devnode"
)

// pod is a pod of a benchmark: one container of the sample image, in the node's network.
type pod struct {
	name string
	args []string
	// probes are the container's probes, in YAML.
	probes string
	// volumes are mounted in addition to the pipe.
	volumes []volume
}

// began returns the first line that the pod's process writes.
func (p pod) began() string { return "began " + p.name }

// beginnings returns the first lines that the pods' processes write.
func beginnings(pods []pod) []string {
	lines := make([]string, len(pods))
	for i, p := range pods {
		lines[i] = p.began()
	}
	return lines
}

// ended returns the last line that the process writes.
func (p pod) ended() string { return "ended " + p.name }

// appendLine returns the command that writes a line.
func appendLine(line string) []string { return []string{"append", pipeInPod, line} }

// then joins commands into one.
func then(commands ...[]string) []string {
	args := []string{"seq"}
	for i, c := range commands {
		if i > 0 {
			args = append(args, ";")
		}
		args = append(args, c...)
	}
	return args
}

// staying returns a pod that writes its first line, and then runs on.
func staying(name string) pod {
	p := pod{name: name}
	p.args = then(appendLine(p.began()), []string{"sleep"})
	return p
}

// manifest returns the static pod's manifest. pipes is the directory of the node's pipe.
func (p pod) manifest(pipes string) []byte {
	args, err := json.Marshal(p.args)
	if err != nil {
		panic(err) // Strings can be encoded.
	}
	var objects, mounts, volumes strings.Builder
	for _, v := range p.volumes {
		objects.WriteString(v.object)
		fmt.Fprintf(&mounts, "\n    - {name: %s, mountPath: %s, subPath: %q}", v.name, v.mountPath(), v.subPath)
		fmt.Fprintf(&volumes, "  - {name: %s, %s}\n", v.name, v.source)
	}
	return fmt.Appendf(nil, `%sapiVersion: v1
kind: Pod
metadata: {name: %s, namespace: bench, labels: {app: bench}}
spec:
  hostNetwork: true
  terminationGracePeriodSeconds: 1
  containers:
  - name: main
    image: %s
    imagePullPolicy: IfNotPresent
    args: %s
    volumeMounts:
    - {name: pipe, mountPath: %s}%s
%s
  volumes:
  - {name: pipe, hostPath: {path: %s}}
%s`, objects.String(), p.name, devnode.SampleImage, args, pipeDirInPod, mounts.String(), p.probes, pipes, volumes.String())
}

// object returns the pod as podconfigd would send it.
func (p pod) object(b *testing.B, pipes string) *v1.Pod {
	b.Helper()
	origin := manifest.Parse(p.manifest(pipes), manifest.Options{Origin: p.name, Node: nodeName})
	if len(origin.Pods) != 1 {
		b.Fatalf("the pod's manifest is invalid: %v", origin.Findings)
	}
	return origin.Pods[0].Pod
}
