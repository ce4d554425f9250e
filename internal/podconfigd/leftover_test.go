package podconfigd

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/podstream/podstream/internal/sourceconfig"
)

// TestRemovedArtifact: what a removed source has stored, with its Secrets, is removed when the configuration is read and at the
// next start. What the others have stored stays, also that of one whose key file is missing.
func TestRemovedArtifact(t *testing.T) {
	n := newArtifactNode(t)
	n.push(1, "web")
	config := filepath.Join(n.dir, "sources.yaml")
	write := func(names ...string) {
		text := "apiVersion: podstream.io/v1alpha1\nkind: PodSources\noci:\n"
		for _, name := range names {
			text += "- name: " + name + "\n  reference: " + n.hub.Addr + "/pods:prod\n  publicKeyFile: " + filepath.Join(n.dir, "cosign.pub") + "\n"
		}
		if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	stored := func() string {
		entries, err := os.ReadDir(filepath.Join(n.dir, "root", "oci"))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		var names []string
		for _, e := range entries {
			if _, err := os.Stat(filepath.Join(n.dir, "root", "oci", e.Name(), "pin.json")); err == nil {
				names = append(names, e.Name())
			}
		}
		return strings.Join(names, " ")
	}
	await := func(want string) {
		t.Helper()
		for late := time.Now().Add(time.Minute); stored() != want; time.Sleep(5 * time.Millisecond) {
			if time.Now().After(late) {
				t.Fatalf("there is %q; want %q", stored(), want)
			}
		}
	}
	n.args = []string{"--config=" + config}
	write("a", "b", "c")
	n.start()
	await("oci:a oci:b oci:c")
	write("a", "c")
	await("oci:a oci:c")
	n.r.stop()
	if err := os.Rename(filepath.Join(n.dir, "cosign.pub"), filepath.Join(n.dir, "away.pub")); err != nil {
		t.Fatal(err)
	}
	write("a")
	n.start()
	await("oci:a")
	n.r.stop()
	if got := stored(); got != "oci:a" {
		t.Errorf("without the key, there is %q", got)
	}
}

// TestLeftovers: only directories with the name of a source of an artifact are removed, and no link is followed. The last one
// takes the directory of all of them along.
func TestLeftovers(t *testing.T) {
	root := t.TempDir()
	b := &builder{rootDir: filepath.Join(root, "root")}
	outside := filepath.Join(root, "outside")
	for _, dir := range []string{b.artifactDir("oci"), b.artifactDir("oci:a/b"), b.artifactDir("oci:file"), b.artifactDir("other"), outside} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(outside, b.artifactDir("oci:link")); err != nil {
		t.Fatal(err)
	}
	all := leftovers{b.inRoot(artifactsDir), discard()}
	names := func() []string {
		entries, err := os.ReadDir(all.dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		var out []string
		for _, e := range entries {
			out = append(out, e.Name())
		}
		return out
	}
	plan := &sourceconfig.Plan{Sources: []sourceconfig.Source{{Name: "oci", Kind: sourceconfig.OCI}, {Name: "oci:file", Kind: sourceconfig.File}}}
	all.remove(plan)
	if got := names(); !slices.Equal(got, []string{"oci", "other"}) {
		t.Errorf("there are %q", got)
	}
	if _, err := os.Stat(filepath.Join(outside, "file")); err != nil {
		t.Errorf("a link was followed: %v", err)
	}
	if err := os.RemoveAll(b.artifactDir("other")); err != nil {
		t.Fatal(err)
	}
	all.remove(&sourceconfig.Plan{})
	if _, err := os.Stat(all.dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the empty directory stays: %v", err)
	}
	all.remove(&sourceconfig.Plan{})
	leftovers{}.remove(plan)
}
