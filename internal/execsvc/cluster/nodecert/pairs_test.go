package nodecert

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/podstream/podstream/internal/certtest"
)

// TestPairs: the newest certificate is found at the kubelet's paths, in the kubelet's order.
func TestPairs(t *testing.T) {
	dir, ca := t.TempDir(), certtest.NewCA(t, "cluster")
	i := &issuer{prefix: "kubelet-client", dir: dir, certFile: filepath.Join(dir, "given.crt"), keyFile: filepath.Join(dir, "given.key")}
	want := func(what, node string) {
		t.Helper()
		got, err := i.current()
		switch {
		case err != nil:
			t.Fatalf("%s: %v", what, err)
		case node == "" && got != nil || node != "" && (got == nil || got.Leaf.Subject.CommonName != "system:node:"+node):
			t.Errorf("%s: the certificate is %v; want that of %q", what, got, node)
		}
	}
	write := func(cert, key, node string) {
		t.Helper()
		certPEM, keyPEM := ca.PairPEM(forNode(node, time.Hour))
		for path, text := range map[string][]byte{cert: certPEM, key: keyPEM} {
			if err := os.WriteFile(filepath.Join(dir, path), text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	want("without files", "")
	write("kubelet-client.crt", "kubelet-client.key", "plain")
	want("a pair of the prefix", "plain")
	write("given.crt", "given.key", "given")
	want("a given pair", "given")
	for _, node := range []string{"first", "second"} {
		if _, err := i.save(ca.PairPEM(forNode(node, time.Hour))); err != nil {
			t.Fatal(err)
		}
		want("a saved pair", node)
	}
	if info, err := os.Stat(i.currentPath()); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file has the mode %v, %v; want 0600", info.Mode(), err)
	}
	if err := os.Rename(i.currentPath(), i.pairPath("updated")); err != nil {
		t.Fatal(err)
	}
	want("after a kill of a kubelet before the last rename", "second")
	if err := os.Symlink("nowhere", i.pairPath("updated")); err != nil {
		t.Fatal(err)
	}
	if _, err := i.save(ca.PairPEM(forNode("third", time.Hour))); err != nil {
		t.Fatal(err)
	}
	want("after a kill before the last rename", "third")
	if err := os.Remove(i.currentPath()); err != nil {
		t.Fatal(err)
	}
	write("kubelet-client-current.pem", "unused", "file")
	if _, err := i.save(ca.PairPEM(forNode("fourth", time.Hour))); err == nil {
		t.Error("a file that isn't a link was replaced")
	}
	if err := os.WriteFile(i.currentPath(), []byte("damaged"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := i.current(); err == nil {
		t.Errorf("of a damaged file it returns %v", got)
	}
}
