package world

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/podstream/podstream/test/inside"
)

// shown describes a file in one line: `dir 2777 0:7 writable`, `file 0644 0:0 "text"`, `link to ..data/a`.
func shown(f inside.File) string {
	switch f.Kind {
	case "missing":
		return f.Kind
	case "link":
		return "link to " + f.Link
	}
	line := fmt.Sprintf("%s %s %d:%d", f.Kind, f.Mode, f.UID, f.GID)
	if f.Writable {
		line += " writable"
	}
	if f.Kind == "file" {
		line += fmt.Sprintf(" %q", f.Content)
	}
	return line
}

// finds expects the files at these paths to be as described by shown.
func finds(want map[string]string) func(*inside.Report) error {
	return func(r *inside.Report) error {
		got := map[string]string{}
		for path := range want {
			got[path] = "not looked for"
			if f, ok := r.Files[path]; ok {
				got[path] = shown(f)
			}
		}
		return same("the files", got, want)
	}
}

// ofV are the paths of a volume at /v whose files are written by podexecd: the visible files, and the directory that
// they link to.
var ofV = []string{"/v", "/v/..data/."}

// holds expects the volume at /v, of the paths ofV, to have exactly these files, read-only and updated atomically:
// MODE UID:GID "CONTENT".
func holds(want map[string]string) func(*inside.Report) error {
	return func(r *inside.Report) error {
		got, tops, links := map[string]string{}, map[string]string{}, map[string]string{}
		for path, f := range r.Files {
			name, behind := strings.CutPrefix(path, "/v/..data/")
			if behind && f.Kind == "file" {
				got[name] = strings.TrimPrefix(shown(f), "file ")
				top, _, _ := strings.Cut(name, "/")
				tops[top] = "link to ..data/" + top
			}
			if name, ok := strings.CutPrefix(path, "/v/"); ok && !strings.HasPrefix(name, "..") && !strings.Contains(name, "/") {
				links[name] = shown(f)
			}
		}
		m := r.Mount("/v")
		if m == nil || !slices.Contains(m.Options, "ro") {
			return fmt.Errorf("the mount is %+v; want it read-only", m)
		}
		return errors.Join(same("the content", got, want), same("what leads to it", links, tops))
	}
}

// both combines checks of main's report.
func both(checks ...func(*inside.Report) error) func(*inside.Report) error {
	return func(r *inside.Report) error {
		var errs []error
		for _, c := range checks {
			errs = append(errs, c(r))
		}
		return errors.Join(errs...)
	}
}

// mounted expects a mount of that type, with these options of the mount or of its file system. An empty type means any
// type.
func mounted(point, fs string, options ...string) func(*inside.Report) error {
	return func(r *inside.Report) error {
		m := r.Mount(point)
		if m == nil || (fs != "" && m.Type != fs) {
			return fmt.Errorf("%s is the mount %+v; want a %s", point, m, fs)
		}
		for _, option := range options {
			if !slices.Contains(m.Options, option) && !slices.Contains(m.Super, option) {
				return fmt.Errorf("%s is the mount %+v; want the option %s", point, m, option)
			}
		}
		return nil
	}
}

// propagates expects the mount to be "private", "master", or "shared,master".
func propagates(point, want string) func(*inside.Report) error {
	return func(r *inside.Report) error {
		m := r.Mount(point)
		if m == nil {
			return fmt.Errorf("there is no mount %s", point)
		}
		return same("the propagation of "+point, m.Propagation, want)
	}
}
