package podbench

import (
	"testing"
	"time"

	"github.com/podstream/podstream/test/devnode"
)

// nodeName is the name of every node, and the suffix of its static pods.
const nodeName = "node"

// product is a node with both daemons.
type product struct {
	node                 *devnode.Node
	pipe                 *pipe
	podconfigd, podexecd *devnode.Process
	manifests            manifestDir
	watcher              *watcher
}

// newProduct starts a node with both daemons. flags are additional flags of podexecd.
func newProduct(b *testing.B, runtime devnode.Runtime, flags ...string) *product {
	b.Helper()
	return newProductOf(b, runtime, "", nil, flags)
}

// newProductOf starts a node with the daemons in the directory bin, "" for those of this tree, with additional flags of
// podconfigd and of podexecd.
func newProductOf(b *testing.B, runtime devnode.Runtime, bin string, configFlags, execFlags []string) *product {
	b.Helper()
	node := startNodeOf(b, runtime, bin)
	p := &product{node: node, pipe: newPipe(b, node.Path("pipe")), manifests: newManifestDir(b, node)}
	config, exec := "unix://"+node.Socket("c"), "unix://"+node.Socket("x")
	start := func(name string, args ...string) *devnode.Process {
		d, err := node.StartDaemon(name, append([]string{"--root-dir", node.Path(name), "--hostname-override", nodeName}, args...)...)
		if err != nil {
			b.Fatal(err)
		}
		return d
	}
	p.podconfigd = start("podconfigd", append([]string{"--listen", config, "--pod-manifest-path", string(p.manifests)}, configFlags...)...)
	p.podexecd = start("podexecd", append([]string{"--kubelet-dir", node.Path("kubelet"), "--listen", exec, "--podconfig-endpoint", config,
		"--container-runtime-endpoint", node.Endpoint(), "--pod-logs-dir", node.Path("logs", "pods")}, execFlags...)...)
	p.watcher = watch(b, exec)
	b.Cleanup(func() {
		if b.Failed() {
			b.Logf("podconfigd ends with:\n%s\npodexecd ends with:\n%s", p.podconfigd.LogTail(), p.podexecd.LogTail())
		}
	})
	return p
}

// run starts the pods and removes them. It returns the time until all of their processes ran.
func (p *product) run(b *testing.B, pods ...pod) time.Duration {
	b.Helper()
	began := p.start(b, pods...)
	took := p.pipe.await(b, beginnings(pods)...).Sub(began)
	p.remove(b, pods...)
	return took
}

// start renames the pods' manifests into place, and returns the time of the first rename.
func (p *product) start(b *testing.B, pods ...pod) time.Time {
	b.Helper()
	return p.manifests.add(b, p.pipe, pods)
}

// remove removes the manifests, and returns when nothing is left of the pods.
func (p *product) remove(b *testing.B, pods ...pod) {
	b.Helper()
	p.manifests.remove(b, pods)
	names := make([]string, len(pods))
	for i, pod := range pods {
		names[i] = pod.name
	}
	p.watcher.await(b, "pods that are gone", each(names, func(c change) bool { return c.gone }))
}
