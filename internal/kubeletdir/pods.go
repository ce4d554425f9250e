package kubeletdir

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/types"
)

// Pods are the places of the pods' directories. The zero value has none. It is a value: it stores nothing about single pods,
// so that it is right also after a restart.
type Pods struct {
	// Current has the directories of pods that start now: <kubelet-dir>/pods.
	Current string
	// Previous has those of pods that an earlier version started: <root-dir>/pods. Their containers have mounts from there, so
	// they keep them until they end. Empty: there are none.
	Previous string
}

// NewPods returns the places of the pods' directories. <kubelet-dir>/pods must exist. An empty <root-dir>/pods is removed.
func NewPods(kubeletDir, rootDir string) (Pods, error) {
	p := Pods{Current: PodsDir(kubeletDir)}
	now, err := os.Stat(p.Current)
	if err != nil {
		return Pods{}, fmt.Errorf("look at the directory of pods: %w", err)
	}
	previous := filepath.Join(rootDir, podsName)
	was, err := os.Stat(previous)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return p, nil
	case err != nil:
		return Pods{}, fmt.Errorf("look at the pods' directories of an earlier version: %w", err)
	case !was.IsDir():
		return Pods{}, fmt.Errorf("%s isn't a directory; an earlier version has the pods' directories there", previous)
	case os.SameFile(now, was):
		return p, nil
	}
	if err := unix.Rmdir(previous); err == nil || errors.Is(err, fs.ErrNotExist) {
		return p, nil
	}
	p.Previous = previous
	return p, nil
}

// Roots returns the directories that have pods' directories, the current one first.
func (p Pods) Roots() []string {
	switch {
	case p.Current == "":
		return nil
	case p.Previous == "":
		return []string{p.Current}
	}
	return []string{p.Current, p.Previous}
}

// Root returns the directory that has, or would have, the pod's directory. If it can't be looked at, the pod keeps its previous
// place: it may have files there, and the error of their next use is reported.
func (p Pods) Root(uid types.UID) string {
	if p.Previous == "" {
		return p.Current
	}
	switch _, err := os.Lstat(filepath.Join(p.Previous, string(uid))); {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ENAMETOOLONG):
		return p.Current
	}
	return p.Previous
}

// Of returns the path of the pod's directory, which may not exist. The caller has checked the UID. It is "" for the zero value.
func (p Pods) Of(uid types.UID) string {
	if p.Current == "" {
		return ""
	}
	return filepath.Join(p.Root(uid), string(uid))
}

// maxListed bounds the names that List reads of a directory. CSI drivers can write to it.
const maxListed = 100_000

// ErrTooMany is the error of a directory with too many names for a node's pods.
var ErrTooMany = errors.New("it has too many files and directories to be that of a node's pods: remove those that aren't of pods")

// List returns the UIDs of the pods that have a directory, each once. More than maxListed names are ErrTooMany.
func (p Pods) List() ([]types.UID, error) {
	var uids []types.UID
	seen := map[string]bool{}
	for _, root := range p.Roots() {
		err := eachDir(root, maxListed, func(name string) {
			if !seen[name] {
				seen[name] = true
				uids = append(uids, types.UID(name))
			}
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("list the pods' directories: %w", err)
		}
	}
	slices.Sort(uids)
	return uids, nil
}

// eachDir calls do with the name of each directory in root, which has at most so many names.
func eachDir(root string, most int, do func(name string)) error {
	dir, err := os.Open(root)
	if err != nil {
		return err
	}
	defer dir.Close()
	for read := 0; ; {
		entries, err := dir.ReadDir(256)
		if read += len(entries); read > most {
			return fmt.Errorf("%s: %w", root, ErrTooMany)
		}
		for _, e := range entries {
			if e.IsDir() {
				do(e.Name())
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
