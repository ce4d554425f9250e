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

	"go.uber.org/goleak"
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
	podconfigd string
	rows       []row
)

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(run(m))
}

// run runs the tests between the start and the end of the control plane, and then shows what was checked.
func run(m *testing.M) (code int) {
	dir, err := os.MkdirTemp("", "cluster")
	if err == nil {
		defer os.RemoveAll(dir)
		started := time.Now()
		podconfigd = filepath.Join(dir, "podconfigd")
		err = build(podconfigd)
		if err == nil {
			plane, err = startControl(context.Background(), dir, *etcdProgram)
		}
		if err == nil {
			what := "podconfigd is built, kube-apiserver is ready on etcd " + plane.Etcd.Version.String()
			rows = append(rows, row{what: what, good: true, took: time.Since(started)})
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "cluster:", err)
		if errors.Is(err, fs.ErrNotExist) {
			fmt.Fprintln(os.Stderr, "cluster: make test-cluster builds the programs that this needs")
		}
		return 1
	}
	code = m.Run()
	plane.Close()
	if err := goleak.Find(); err != nil {
		fmt.Fprintln(os.Stderr, "cluster:", err)
		code = 1
	}
	printTable()
	return code
}

// build builds podconfigd.
func build(path string) error {
	cmd := exec.Command("go", "build", "-o", path, "./cmd/podconfigd")
	cmd.Dir = filepath.Join("..", "..")
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build podconfigd: %w\n%s", err, output)
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

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// get returns the value of a call, and ends the test if there is an error.
func get[T any](value T, err error) func(t *testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		must(t, err)
		return value
	}
}
