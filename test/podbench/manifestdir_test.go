package podbench

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/podstream/podstream/test/devnode"
)

// manifestDir is the directory of an agent's static pods.
type manifestDir string

func newManifestDir(b *testing.B, node *devnode.Node) manifestDir {
	b.Helper()
	dir := node.Path("manifests")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		b.Fatal(err)
	}
	return manifestDir(dir)
}

// add renames the pods' manifests into place, and returns the time of the first rename.
func (d manifestDir) add(b *testing.B, into *pipe, pods []pod) time.Time {
	b.Helper()
	for _, pod := range pods {
		if err := os.WriteFile(d.draft(pod), pod.manifest(into.dir), 0o644); err != nil {
			b.Fatal(err)
		}
	}
	began := time.Now()
	for _, pod := range pods {
		if err := os.Rename(d.draft(pod), d.path(pod)); err != nil {
			b.Fatal(err)
		}
	}
	return began
}

func (d manifestDir) remove(b *testing.B, pods []pod) {
	b.Helper()
	for _, pod := range pods {
		if err := os.Remove(d.path(pod)); err != nil {
			b.Fatal(err)
		}
	}
}

func (d manifestDir) path(pod pod) string { return filepath.Join(string(d), pod.name+".yaml") }

// draft returns the path at which a manifest is written before its rename: neither podconfigd nor the kubelet reads
// hidden files.
func (d manifestDir) draft(pod pod) string { return filepath.Join(string(d), "."+pod.name) }
