package hazards

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/cockroachdb/datadriven"
)

// podLine matches the notation of a manifest.
var podLine = regexp.MustCompile(`(?m)^pod (\S+) (\S+)((?: \S+)*)$`)

// content returns a command's input as the content of a file.
func content(d *datadriven.TestData) string {
	text := podLine.ReplaceAllStringFunc(d.Input, func(line string) string {
		parts := podLine.FindStringSubmatch(line)
		return manifestOf(parts[1], parts[2], strings.Fields(parts[3])...)
	})
	if text != "" {
		text += "\n"
	}
	return text
}

// manifestOf returns a manifest on one line, in JSON.
func manifestOf(name, version string, args ...string) string {
	if len(args) == 0 {
		args = []string{"sleep"}
	}
	return fmt.Sprintf(`{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": %q}, "spec": {"terminationGracePeriodSeconds": 1, `+
		`"containers": [{"name": "main", "image": "localhost/sample:%s", "imagePullPolicy": "IfNotPresent", "args": ["%s"]}]}}`,
		name, version, strings.Join(args, `", "`))
}

func mkdirAll(path string) error { return os.MkdirAll(path, 0o755) }

func write(s *scenario, d *datadriven.TestData) string {
	s.check(os.WriteFile(s.path(s.arg(d, 0)), []byte(content(d)), 0o644))
	return ""
}

func place(s *scenario, d *datadriven.TestData) string {
	path := s.path(s.arg(d, 0))
	temp := filepath.Join(filepath.Dir(path), ".temp")
	s.check(os.WriteFile(temp, []byte(content(d)), 0o644))
	s.check(os.Rename(temp, path))
	return ""
}

// writer is a program that writes slowly, and keeps the file open.
type writer struct{ file *os.File }

func (w *writer) write(text string) error {
	_, err := w.file.WriteString(text)
	return err
}

func begin(s *scenario, d *datadriven.TestData) string {
	path := s.arg(d, 0)
	file, err := os.Create(s.path(path))
	s.check(err)
	s.t.Cleanup(func() { _ = file.Close() })
	s.writers[path] = &writer{file: file}
	return carryOn(s, d)
}

func carryOn(s *scenario, d *datadriven.TestData) string {
	w := s.writers[s.arg(d, 0)]
	if w == nil {
		d.Fatalf(s.t, "%s isn't being written", s.arg(d, 0))
	}
	s.check(w.write(content(d)))
	return ""
}

func end(s *scenario, d *datadriven.TestData) string {
	carryOn(s, d)
	s.check(s.writers[s.arg(d, 0)].file.Close())
	return ""
}

func remove(s *scenario, d *datadriven.TestData) string {
	s.check(os.RemoveAll(s.path(s.arg(d, 0))))
	return ""
}

func rename(s *scenario, d *datadriven.TestData) string {
	s.check(os.Rename(s.path(s.arg(d, 0)), s.path(s.arg(d, 1))))
	return ""
}

func mkdir(s *scenario, d *datadriven.TestData) string {
	s.check(mkdirAll(s.path(s.arg(d, 0))))
	return ""
}

func symlink(s *scenario, d *datadriven.TestData) string {
	path := s.path(s.arg(d, 1))
	s.check(os.Symlink(s.arg(d, 0), path+".new"))
	s.check(os.Rename(path+".new", path))
	return ""
}
