package results

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// The states of a result.
const (
	Passed  = "passed"
	Failed  = "failed"
	Skipped = "skipped"
)

// Key is what was tested: an agent, "kubelet" or "podstream", of a commit or version, on a runtime's version, by the
// specs of a version of Kubernetes.
type Key struct {
	Agent   string `json:"agent"`
	Commit  string `json:"commit"`
	Runtime string `json:"runtime"`
	Specs   string `json:"specs"`
}

// Result is the result of one run of a spec.
type Result struct {
	Spec string `json:"spec"`
	// State is Passed, Failed or Skipped. Reason is why it isn't the first.
	State   string    `json:"state"`
	Reason  string    `json:"reason,omitempty"`
	Seconds float64   `json:"seconds"`
	Time    time.Time `json:"time"`
}

// path returns the path of a key's file. The version of the specs is only in the file: results of other specs are
// refused, and not ignored.
func (k Key) path(dir string) (string, error) {
	for _, part := range []string{k.Agent, k.Commit, k.Runtime, k.Specs} {
		if part == "" || strings.ContainsAny(part, "/\x00\n") || part[0] == '.' {
			return "", fmt.Errorf("%q in the key %+v can't be a part of a file's name", part, k)
		}
	}
	return filepath.Join(dir, k.Agent, k.Runtime, k.Commit+extension), nil
}

const extension = ".jsonl"

// Load returns the results of a key by spec, in the order of the runs. No file is no results. A last line without an
// end is left out: a run is writing it, or was killed while it wrote.
func Load(dir string, key Key) (map[string][]Result, error) {
	path, err := key.path(dir)
	if err != nil {
		return nil, err
	}
	data, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	runs, _, err := parse(path, data, key)
	return runs, err
}

// Commits returns the commits of an agent on a runtime that have results, the last written one first.
func Commits(dir, agent, runtime string) ([]string, error) {
	files, err := filepath.Glob(filepath.Join(dir, agent, runtime, "*"+extension))
	if err != nil {
		return nil, err
	}
	times := map[string]time.Time{}
	for _, file := range files {
		info, err := os.Stat(file)
		if err != nil {
			return nil, err
		}
		times[strings.TrimSuffix(filepath.Base(file), extension)] = info.ModTime()
	}
	return byTime(times), nil
}

// Latest returns the results of the commit of an agent that were written last, and that commit. Without any, both are
// empty. key.Commit is ignored.
func Latest(dir string, key Key) (commit string, runs map[string][]Result, err error) {
	commits, err := Commits(dir, key.Agent, key.Runtime)
	if err != nil || len(commits) == 0 {
		return "", nil, err
	}
	key.Commit = commits[0]
	runs, err = Load(dir, key)
	return key.Commit, runs, err
}
