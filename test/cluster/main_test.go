package cluster

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/podstream/podstream/test/rig"
)

// tools is the directory of the programs that make builds.
var tools = filepath.Join("..", "..", ".tools")

// etcdProgram is the etcd to run.
var etcdProgram = flag.String("etcd", filepath.Join(tools, "etcd"), "`program` of the etcd that the API server stores in")

// absence is how long the API server is away in TestAbsence.
var absence = flag.Duration("absence", 20*time.Second, "how `long` the API server is away in TestAbsence, at least")

// What all tests share. They run one after another.
var (
	plane      *controlPlane
	dir        string
	podconfigd string
	rows       []row
)

func TestMain(m *testing.M) {
	code := rig.Main(m, start, stop)
	printTable()
	os.Exit(code)
}

// start builds podconfigd and starts the control plane.
func start() (err error) {
	started := time.Now()
	if dir, err = os.MkdirTemp("", "cluster"); err != nil {
		return err
	}
	podconfigd = filepath.Join(dir, "podconfigd")
	if err = build(podconfigd); err == nil {
		plane, err = startControl(context.Background(), dir, *etcdProgram)
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w\nmake test-cluster builds the programs that this needs", err)
	}
	if err != nil {
		return errors.Join(err, os.RemoveAll(dir))
	}
	what := "podconfigd is built, kube-apiserver is ready on etcd " + plane.Etcd.Version.String()
	rows = append(rows, row{what: what, good: true, took: time.Since(started)})
	return nil
}

func stop() error {
	plane.Close()
	return os.RemoveAll(dir)
}

// build builds podconfigd, with additional flags of go build.
func build(path string, flags ...string) error {
	return buildAt(path, append(flags, "./cmd/podconfigd")...)
}

// buildAt builds programs, with the arguments of go build.
func buildAt(path string, args ...string) error {
	cmd := exec.Command("go", append([]string{"build", "-o", path}, args...)...)
	cmd.Dir = filepath.Join("..", "..")
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build %v: %w\n%s", args, err, output)
	}
	return nil
}

// row is one check in the table of results.
type row struct {
	what string
	good bool
	took time.Duration
}

// check runs a subtest that has a row in the table. Later checks depend on it, so the test ends if it fails.
func check(t *testing.T, what string, f func(t *testing.T)) {
	t.Helper()
	started := time.Now()
	good := t.Run(what, f)
	rows = append(rows, row{what: t.Name() + ": " + what, good: good, took: time.Since(started)})
	if !good {
		t.FailNow()
	}
}

func printTable() {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	for _, r := range rows {
		verdict := "good"
		if !r.good {
			verdict = "FAILED"
		}
		fmt.Fprintf(w, "%s\t%.1f s\t%s\n", verdict, r.took.Seconds(), r.what)
	}
	_ = w.Flush()
}
