package results

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// format is the version of the files.
const format = 1

// header is the first line of a file.
type header struct {
	Format int `json:"format"`
	Key
}

// longestReason is the greatest length of a reason in bytes. Failures of specs quote whole objects.
const longestReason = 8 << 10

// File is a key's file, of which this process is the only writer.
type File struct {
	// Runs are the results by spec, in the order of the runs.
	Runs map[string][]Result
	// Dropped has the path and the text of a line that a killed run left half written. It is gone from the file.
	Dropped string

	file *os.File
}

// Open opens a key's file for results, and makes it if it doesn't exist. It fails if another process has it open.
func Open(dir string, key Key) (_ *File, err error) {
	path, err := key.path(dir)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	f := &File{file: file}
	defer func() {
		if err != nil {
			err = errors.Join(err, file.Close())
		}
	}()
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, fmt.Errorf("another run writes %s: %w", path, err)
	}
	data, err := io.ReadAll(file)
	if err != nil {
		return nil, err
	}
	var whole []byte
	if f.Runs, whole, err = parse(path, data, key); err != nil {
		return nil, err
	}
	if rest := data[len(whole):]; len(rest) > 0 {
		f.Dropped = fmt.Sprintf("%s: %.200q", path, rest)
		if err := file.Truncate(int64(len(whole))); err != nil {
			return nil, err
		}
	}
	if len(whole) == 0 {
		err = f.write(header{format, key})
	}
	return f, err
}

// Append adds results, which are on the disk when it returns.
func (f *File) Append(results ...Result) error {
	var lines []any
	for _, r := range results {
		if len(r.Reason) > longestReason {
			r.Reason = strings.ToValidUTF8(r.Reason[:longestReason], "") + "…"
		}
		if err := r.check(); err != nil {
			return fmt.Errorf("keep the result of %q: %w", r.Spec, err)
		}
		lines = append(lines, r)
		f.Runs[r.Spec] = append(f.Runs[r.Spec], r)
	}
	return f.write(lines...)
}

// Close closes it. Another process may then open it.
func (f *File) Close() error { return f.file.Close() }

func (f *File) write(lines ...any) error {
	var text bytes.Buffer
	for _, line := range lines {
		if err := json.NewEncoder(&text).Encode(line); err != nil {
			return err
		}
	}
	if _, err := f.file.Write(text.Bytes()); err != nil {
		return err
	}
	return f.file.Sync()
}

// parse reads a key's file. It returns the results, and the part of the data that is whole lines. Nothing, or the
// beginning of a first line, is no results.
func parse(path string, data []byte, key Key) (runs map[string][]Result, whole []byte, err error) {
	runs = map[string][]Result{}
	whole = data[:bytes.LastIndexByte(data, '\n')+1]
	number := 0
	for line := range bytes.Lines(whole) {
		number++
		if number == 1 {
			if err := checkHeader(line, key); err != nil {
				return nil, nil, fmt.Errorf("%s: %w: move the file away", path, err)
			}
			continue
		}
		var r Result
		err := strictly(line, &r)
		if err == nil {
			err = r.check()
		}
		if err != nil {
			return nil, nil, fmt.Errorf("%s:%d: damaged: %w: remove the line, and that run of its spec is repeated", path, number, err)
		}
		runs[r.Spec] = append(runs[r.Spec], r)
	}
	return runs, whole, nil
}

// checkHeader returns an error if a file's first line isn't the one of this format and key.
func checkHeader(line []byte, key Key) error {
	var version struct {
		Format int `json:"format"`
	}
	if err := json.Unmarshal(line, &version); err != nil {
		return fmt.Errorf("it doesn't begin with the format of its results: %w", err)
	}
	if version.Format != format {
		return fmt.Errorf("its format is %d, and this program's is %d", version.Format, format)
	}
	var h header
	if err := strictly(line, &h); err != nil {
		return fmt.Errorf("its first line is damaged: %w", err)
	}
	if h.Key != key {
		return fmt.Errorf("its results are of %+v, and not of %+v", h.Key, key)
	}
	return nil
}

// strictly decodes one value, all of whose fields are known.
func strictly(line []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("a second value follows")
	}
	return nil
}

// check returns an error for a result that no run can have written.
func (r Result) check() error {
	switch {
	case r.Spec == "":
		return errors.New("no spec")
	case !slices.Contains([]string{Passed, Failed, Skipped}, r.State):
		return fmt.Errorf("the state %q", r.State)
	case (r.State == Passed) != (r.Reason == ""):
		return fmt.Errorf("the state %s with the reason %q", r.State, r.Reason)
	case r.Time.IsZero():
		return errors.New("no time")
	default:
		return nil
	}
}

func byTime(times map[string]time.Time) []string {
	return slices.SortedFunc(maps.Keys(times), func(a, b string) int {
		if order := times[b].Compare(times[a]); order != 0 {
			return order
		}
		return strings.Compare(a, b)
	})
}
