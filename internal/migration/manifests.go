package migration

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/podstream/podstream/internal/execsvc/decide/adoption"
	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/internal/openfile"
)

// The bounds of a directory of manifests.
const (
	// maxNames is the maximum number of names in it, as for podconfigd.
	maxNames = 100_000
	// maxManifests is the maximum size of all manifests together, in bytes.
	maxManifests = 64 << 20
	// maxFindings is how many problems of manifests are reported.
	maxFindings = 20
)

// readManifests reads the static pods, as podconfigd does. Only what can't be read or is rejected is a note.
func readManifests(ctx context.Context, cfg settled, r *Report) (adoption.Source, error) {
	if cfg.Manifests == "" {
		return adoption.Source{}, nil
	}
	files, others, err := manifestFiles(ctx, cfg.Manifests)
	switch {
	case err != nil && cfg.manifestsGiven:
		return adoption.Source{}, fmt.Errorf("the static pods' manifests: %w", err)
	case errors.Is(err, fs.ErrNotExist):
		// To the kubelet, it is a directory without manifests; podconfigd isn't ready without it.
		r.ManifestsFrom = cfg.Manifests
		return adoption.Source{Known: true, Held: true}, nil
	case err != nil:
		r.note("the static pods' manifests weren't read: %v", err)
		return adoption.Source{}, nil
	}
	if len(others) > 0 {
		r.note("podconfigd doesn't read %s: the name doesn't end in .yaml, .yml or .json, or isn't UTF-8; the kubelet does", atMost(others, maxFindings))
	}
	out, left, problems := adoption.Source{Known: true}, int64(maxManifests), 0
	for _, file := range files {
		if ctx.Err() != nil {
			return adoption.Source{}, fmt.Errorf("the static pods' manifests: %w", context.Cause(ctx))
		}
		data, err := openfile.Read(ctx, file, min(left, manifest.MaxSize))
		var origin *manifest.Origin
		if err != nil {
			origin = manifest.Broken(file, err)
		} else {
			left -= int64(len(data))
			origin = manifest.Parse(data, manifest.Options{Origin: file, Node: cfg.node})
		}
		for _, f := range origin.Findings {
			if f.Severity != manifest.Error {
				continue
			}
			if problems++; problems <= maxFindings {
				r.note("podconfigd rejects a manifest: %s", describe(file, f))
			}
		}
		out.Held = out.Held || origin.Held
		for _, p := range origin.Pods {
			out.Pods = append(out.Pods, p.Pod)
		}
	}
	if problems > maxFindings {
		r.note("podconfigd rejects manifests for %d further reasons", problems-maxFindings)
	}
	r.ManifestsFrom = cfg.Manifests
	return out, ctx.Err()
}

// describe returns the finding without text of the manifest, which may hold a secret.
func describe(file string, f manifest.Finding) string {
	f = f.Redacted()
	if f.Field != "" {
		return fmt.Sprintf("%s: %s: %s", file, f.Field, f.Message)
	}
	return file + ": " + f.Message
}

// manifestFiles returns the files that podconfigd reads of the path: the path itself, or its manifests if it is a directory. The
// kubelet reads others too. Both are sorted.
func manifestFiles(ctx context.Context, path string) (files, others []string, err error) {
	// O_DIRECTORY opens no named pipe and no device: the open would wait for a writer, or act on the device.
	dir, err := os.OpenFile(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NONBLOCK, 0)
	if errors.Is(err, unix.ENOTDIR) {
		// Otherwise an element of the path before the last one is no directory.
		if _, missing := os.Stat(path); missing == nil {
			return []string{path}, nil, nil
		}
	}
	if err != nil {
		return nil, nil, err
	}
	defer dir.Close()
	for seen := 0; ; {
		entries, err := dir.ReadDir(1024)
		for _, e := range entries {
			switch file := filepath.Join(path, e.Name()); {
			case e.IsDir() || strings.HasPrefix(e.Name(), "."):
			case isManifest(file):
				files = append(files, file)
			default:
				others = append(others, file)
			}
		}
		seen += len(entries)
		switch {
		case errors.Is(err, io.EOF):
			slices.Sort(files)
			slices.Sort(others)
			return files, others, nil
		case err != nil:
			return nil, nil, err
		case ctx.Err() != nil:
			return nil, nil, context.Cause(ctx)
		case seen > maxNames:
			return nil, nil, fmt.Errorf("%s has more than %d names", path, maxNames)
		}
	}
}

// isManifest reports whether podconfigd reads the file of a directory.
func isManifest(file string) bool {
	return utf8.ValidString(file) && slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(file))
}

// atMost returns the list as text, with at most most items.
func atMost(list []string, most int) string {
	text := strings.Join(list[:min(len(list), most)], ", ")
	if more := len(list) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
