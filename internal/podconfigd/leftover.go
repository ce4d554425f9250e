package podconfigd

import (
	"errors"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/podstream/podstream/internal/sourceconfig"
)

// leftovers are the directories in which sources of artifacts have stored theirs, with the Secrets in them. One whose source
// isn't configured any more is removed.
type leftovers struct {
	// dir is the directory of all of them. Empty: nothing is stored.
	dir string
	log *slog.Logger
}

// remove removes the directories of sources that aren't in the plan, which is in force. The readers of these sources have
// ended. What can't be removed is tried again with the next plan, and at the next start.
func (l leftovers) remove(plan *sourceconfig.Plan) {
	if l.dir == "" {
		return
	}
	if err := l.removeOthers(plan); err != nil && !errors.Is(err, fs.ErrNotExist) {
		l.log.Warn("what an artifact's removed source has stored can't be removed; that is tried again when the configuration is read",
			"path", l.dir, "error", err)
	}
}

func (l leftovers) removeOthers(plan *sourceconfig.Plan) error {
	// No link leads out of the root.
	root, err := os.OpenRoot(l.dir)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	dir, err := root.Open(".")
	if err != nil {
		return err
	}
	names, err := dir.Readdirnames(-1)
	_ = dir.Close()
	if err != nil {
		return err
	}
	kept := 0
	var failed []error
	for _, name := range names {
		source, err := url.PathUnescape(name)
		if err != nil || !isOfArtifact(source) || isConfigured(plan, source) {
			kept++
			continue
		}
		if err := root.RemoveAll(name); err != nil {
			failed = append(failed, err)
			continue
		}
		l.log.Info("removed what the artifact's source had stored, as it isn't configured any more", "source", source)
	}
	if kept == 0 && len(failed) == 0 {
		failed = append(failed, os.Remove(l.dir))
	}
	return errors.Join(failed...)
}

// isOfArtifact reports whether a source of an artifact may have the name. Anything else isn't podconfigd's.
func isOfArtifact(source string) bool {
	return source == string(sourceconfig.OCI) || strings.HasPrefix(source, string(sourceconfig.OCI)+":")
}

// isConfigured reports whether the plan has the source as one of an artifact.
func isConfigured(plan *sourceconfig.Plan, source string) bool {
	return slices.ContainsFunc(plan.Sources, func(s sourceconfig.Source) bool { return s.Name == source && s.Kind == sourceconfig.OCI })
}
