package skew

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podstream/podstream/test/rig"
)

// daemons are what is upgraded.
var daemons = []string{"podconfigd", "podexecd"}

var (
	nodes *rig.Nodes
	// versions are the directories of both versions' daemons.
	versions = map[version]string{}
)

type version string

const (
	before version = "N-1"
	now    version = "N"
)

// enable is set by `make test-skew`: elsewhere the build of another version would take longer than the test.
const enable = "PODSTREAM_SKEW"

func TestMain(m *testing.M) {
	if os.Getenv(enable) == "" {
		fmt.Println("skipped: make test-skew runs these tests")
		return
	}
	os.Exit(rig.Main(m, start, func() error { return nodes.Close() }))
}

func start() (err error) {
	if nodes, err = rig.NewNodes(os.Stderr); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, nodes.Close())
		}
	}()
	for _, v := range []version{before, now} {
		if versions[v], err = nodes.NewDir(); err != nil {
			return err
		}
	}
	for _, name := range daemons {
		if err := replace(filepath.Join(nodes.BinDir, name), filepath.Join(versions[now], name)); err != nil {
			return err
		}
	}
	return buildPrevious(versions[before])
}

// buildPrevious builds the previous version's daemons from the history of the clone.
func buildPrevious(bin string) error {
	content, err := os.ReadFile("previous")
	if err != nil {
		return err
	}
	commit := strings.TrimSpace(string(content))
	git := func(args ...string) *exec.Cmd {
		cmd := exec.Command("git", args...)
		cmd.Dir = filepath.Join("..", "..")
		return cmd
	}
	if out, err := git("cat-file", "-e", commit+"^{commit}").CombinedOutput(); err != nil {
		return fmt.Errorf("the clone lacks the previous version, commit %s of test/skew/previous: git fetch --unshallow: %w\n%s", commit, err, out)
	}
	source, err := nodes.NewDir()
	if err != nil {
		return err
	}
	archive := filepath.Join(source, "source.tar")
	if out, err := git("archive", "--output", archive, commit).CombinedOutput(); err != nil {
		return fmt.Errorf("read the previous version: %w\n%s", err, out)
	}
	if out, err := exec.Command("tar", "--extract", "--directory", source, "--file", archive).CombinedOutput(); err != nil {
		return fmt.Errorf("unpack the previous version: %w\n%s", err, out)
	}
	args := []string{"build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", bin + "/"}
	for _, name := range daemons {
		args = append(args, "./cmd/"+name)
	}
	build := exec.Command("go", args...)
	build.Dir, build.Env = source, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build the previous version: %w\n%s", err, out)
	}
	return nil
}

// replace puts a copy of a program in the place of another, in one step, as a package manager does.
func replace(from, to string) error {
	content, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if err := os.WriteFile(to+".new", content, 0o755); err != nil {
		return err
	}
	return os.Rename(to+".new", to)
}
