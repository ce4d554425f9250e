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

	"github.com/podstream/podstream/internal/execsvc/decide/adoption"
	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/internal/openfile"
)

// The bounds of a directory of manifests.
const (
	// maxNames is the maximum number of names in it.
	maxNames = 10000
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
	files, others, err := manifestFiles(cfg.Manifests)
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
		r.note("podconfigd doesn't read %s: the name doesn't end in .yaml, .yml or .json; the kubelet does", atMost(others, maxFindings))
	}
	out, left, problems := adoption.Source{Known: true}, int64(maxManifests), 0
	for _, file := range files {
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
func manifestFiles(path string) (files, others []string, err error) {
	dir, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer dir.Close()
	if info, err := dir.Stat(); err != nil || !info.IsDir() {
		return []string{path}, nil, err
	}
	entries, err := dir.ReadDir(maxNames + 1)
	switch {
	case err != nil && !errors.Is(err, io.EOF):
		return nil, nil, err
	case len(entries) > maxNames:
		return nil, nil, fmt.Errorf("%s has more than %d names", path, maxNames)
	}
	for _, e := range entries {
		file := filepath.Join(path, e.Name())
		switch {
		case e.IsDir() || strings.HasPrefix(e.Name(), "."):
		case slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(file)):
			files = append(files, file)
		default:
			others = append(others, file)
		}
	}
	slices.Sort(files)
	slices.Sort(others)
	return files, others, nil
}

// atMost returns the list as text, with at most most items.
func atMost(list []string, most int) string {
	text := strings.Join(list[:min(len(list), most)], ", ")
	if more := len(list) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
