package node_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// install returns the directory of an installed copy. It skips the test on a machine without Node.
func install(t *testing.T) string {
	t.Helper()
	for _, tool := range []string{"node", "npm"} {
		if _, err := exec.LookPath(tool); err == nil {
			continue
		}
		if os.Getenv("PODSTREAM_REQUIRE_NODE") == "1" {
			t.Fatalf("there is no %s, and PODSTREAM_REQUIRE_NODE=1", tool)
		}
		t.Skipf("there is no %s; to run this test: apt-get install nodejs npm", tool)
	}
	installed.once.Do(func() { installed.root, installed.err = installCopy() })
	if installed.err != nil {
		t.Fatal(installed.err)
	}
	return filepath.Join(installed.root, "examples", "node")
}

// installCopy installs what package-lock.json names into a copy of the tree, so that the checkout stays clean.
func installCopy() (root string, err error) {
	if root, err = os.MkdirTemp("", "podstream-node"); err != nil {
		return "", err
	}
	dir := filepath.Join(root, "examples", "node")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return root, err
	}
	protos, err := filepath.Abs("../../proto")
	if err != nil {
		return root, err
	}
	if err := os.Symlink(protos, filepath.Join(root, "proto")); err != nil {
		return root, err
	}
	for _, name := range []string{"package.json", "package-lock.json", "holdings.mjs", "watch.mjs"} {
		data, err := os.ReadFile(name)
		if err != nil {
			return root, err
		}
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			return root, err
		}
	}
	npm := exec.Command("npm", "ci", "--ignore-scripts", "--prefer-offline", "--no-audit", "--no-fund")
	npm.Dir = dir
	if out, err := npm.CombinedOutput(); err != nil {
		return root, fmt.Errorf("npm ci: %w\n%s", err, out)
	}
	return root, nil
}
