package results

import (
	"bufio"
	"encoding/json"
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

// Key is what was tested: an agent, "kubelet" or "podstream", of a commit or version, on a runtime's version.
type Key struct{ Agent, Commit, Runtime string }

// Result is the result of one run of a spec.
type Result struct {
	Spec string `json:"spec"`
	// State is Passed, Failed or Skipped. Reason is why it isn't the first.
	State   string    `json:"state"`
	Reason  string    `json:"reason,omitempty"`
	Seconds float64   `json:"seconds"`
	Time    time.Time `json:"time"`
}

// file returns the path of a key's results.
func (k Key) file(dir string) (string, error) {
	for _, part := range []string{k.Agent, k.Commit, k.Runtime} {
		if part == "" || strings.ContainsAny(part, "/\x00") || part[0] == '.' {
			return "", fmt.Errorf("%q can't be a part of a name", part)
		}
	}
	return filepath.Join(dir, k.Agent, k.Runtime, k.Commit+".jsonl"), nil
}

// Append adds results, which are on the disk when it returns.
func Append(dir string, key Key, results ...Result) (err error) {
	path, err := key.file(dir)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	var lines []byte
	if ends, err := endsLine(file); err != nil {
		return err
	} else if !ends { // a run was killed while it wrote
		lines = append(lines, '\n')
	}
	for _, r := range results {
		line, err := json.Marshal(r)
		if err != nil {
			return err
		}
		lines = append(append(lines, line...), '\n')
	}
	if _, err := file.Write(lines); err != nil {
		return err
	}
	return file.Sync()
}

// endsLine reports whether the file is empty or ends with the end of a line.
func endsLine(file *os.File) (bool, error) {
	info, err := file.Stat()
	if err != nil || info.Size() == 0 {
		return err == nil, err
	}
	last := make([]byte, 1)
	_, err = file.ReadAt(last, info.Size()-1)
	return last[0] == '\n', err
}

// Load returns the results of a key by spec, in the order of the runs. No file is no results. A line that was cut off
// is ignored.
func Load(dir string, key Key) (map[string][]Result, error) {
	path, err := key.file(dir)
	if err != nil {
		return nil, err
	}
	all := map[string][]Result{}
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return all, nil
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var r Result
		if json.Unmarshal(lines.Bytes(), &r) == nil && r.Spec != "" && r.State != "" {
			all[r.Spec] = append(all[r.Spec], r)
		}
	}
	return all, lines.Err()
}

// Commits returns the commits of an agent and a runtime that have results, the last written one first.
func Commits(dir, agent, runtime string) ([]string, error) {
	files, err := filepath.Glob(filepath.Join(dir, agent, runtime, "*.jsonl"))
	if err != nil {
		return nil, err
	}
	times := map[string]time.Time{}
	for _, file := range files {
		info, err := os.Stat(file)
		if err != nil {
			return nil, err
		}
		times[strings.TrimSuffix(filepath.Base(file), ".jsonl")] = info.ModTime()
	}
	return byTime(times), nil
}
