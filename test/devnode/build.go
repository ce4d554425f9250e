package devnode

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
)

// module is Podstream's module path.
const module = "github.com/podstream/podstream"

// packages are the packages of binaries that aren't in cmd/NAME.
var packages = map[string]string{
	"injectd":     module + "/test/injectd",
	"sample":      module + "/test/sample",
	"simruntimed": module + "/internal/simruntime/simruntimed",
}

// binary returns the path of a binary of this module, and builds it first if BinDir doesn't have it.
func (n *Node) binary(ctx context.Context, name string) (string, error) {
	if n.config.BinDir != "" {
		path, err := filepath.Abs(filepath.Join(n.config.BinDir, name))
		if err == nil && isExecutable(path) {
			return path, nil
		}
	}
	n.buildMu.Lock()
	defer n.buildMu.Unlock()
	path := filepath.Join(n.dir, "bin", name)
	if isExecutable(path) {
		return path, nil
	}
	pkg, ok := packages[name]
	if !ok {
		pkg = module + "/cmd/" + name
	}
	flags := n.config.BuildFlags
	if name == "sample" { // must be static, because its image contains no other file
		flags = []string{"-trimpath", "-ldflags=-s -w"}
	}
	args := slices.Concat([]string{"build"}, flags, []string{"-o", path, pkg})
	err := n.step("building "+name, func() error {
		cmd := exec.CommandContext(ctx, "go", args...)
		if name == "sample" {
			cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		}
		if output, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("build %s: %w\n%s", name, err, output)
		}
		return nil
	})
	return path, err
}
