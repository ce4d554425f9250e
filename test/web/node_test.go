package web

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/podstream/podstream/test/devnode"
	"github.com/podstream/podstream/test/rig"
)

// newRig starts both daemons on the simulated runtime, with pods.
func newRig(t *testing.T, name string, manifests map[string]string, flags ...string) *rig.Rig {
	t.Helper()
	return newRigOn(t, machine.node, name, manifests, flags...)
}

// newRigOn is newRig on another node.
func newRigOn(t *testing.T, node *devnode.Node, name string, manifests map[string]string, flags ...string) *rig.Rig {
	t.Helper()
	r, err := rig.Start(node, name, flags...)
	rig.Must(t, err)
	t.Cleanup(func() { rig.Must(t, r.Close()) })
	for file, content := range manifests {
		rig.Must(t, r.Write(file, content))
	}
	return r
}

// container is a line of a manifest for one container that runs the sample program.
func container(name string, args ...string) string {
	return fmt.Sprintf("  - {name: %s, image: %q, imagePullPolicy: IfNotPresent, args: %s}\n", name, devnode.SampleImage, js(args))
}

// manifest returns the manifest of a pod.
func manifest(name string, containers ...string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata:\n  name: %s\n  labels: {app: %s}\nspec:\n  terminationGracePeriodSeconds: 1\n  containers:\n%s",
		name, name, strings.Join(containers, ""))
}

// webPods are pods as a node might have: most run, one crashes, one waits for an image that there isn't.
func webPods() map[string]string {
	return map[string]string{
		"web.yaml":   manifest("web", container("web", "serve"), container("greeter", "print", "hello from Podstream")),
		"db.yaml":    manifest("db", container("db", "print", "ready for connections")),
		"cache.yaml": manifest("cache", container("cache", "serve")),
		"crash.yaml": manifest("crash", container("main", "exit", "1")),
		"absent.yaml": strings.Replace(manifest("absent", container("main", "serve")),
			fmt.Sprintf("%q", devnode.SampleImage), `"registry.invalid/absent:v1"`, 1),
	}
}

// logFile returns the path of the log of a container, once it exists.
func logFile(t *testing.T, r *rig.Rig, pod, container string) string {
	t.Helper()
	var found []string
	rig.Must(t, rig.Poll(patience, func() (err error) {
		found, err = filepath.Glob(r.Path("log", "pods", "*_"+pod+"-"+r.Name+"_*", container, "0.log"))
		if err == nil && len(found) == 0 {
			err = fmt.Errorf("no log of %s of %s", container, pod)
		}
		return err
	}))
	return found[0]
}

// appendLog writes lines to a container's log in the format of CRI, as if the container had printed them.
func appendLog(t *testing.T, path, stream string, lines ...string) {
	t.Helper()
	file, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	rig.Must(t, err)
	var text strings.Builder
	for _, line := range lines {
		fmt.Fprintf(&text, "%s %s F %s\n", time.Now().UTC().Format(time.RFC3339Nano), stream, line)
	}
	_, err = file.WriteString(text.String())
	rig.Must(t, err)
	rig.Must(t, file.Close())
}
