package csidriver

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/renameio/v2"
	"golang.org/x/sys/unix"
)

// volume is the state of a volume, whichever nodes use it.
type volume struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	// Size is the capacity in bytes.
	Size int64 `json:"size"`
	// Parameters are those of CreateVolume. They are the volume's context too.
	Parameters map[string]string `json:"parameters,omitempty"`
	// Attached are the nodes to which it is published by the controller service.
	Attached map[string]attachment `json:"attached,omitempty"`
	// Formatted reports whether the image has a file system.
	Formatted bool `json:"formatted,omitempty"`
	// Inline volumes are made by NodePublishVolume, and removed by NodeUnpublishVolume.
	Inline bool `json:"inline,omitempty"`
}

// attachment has the arguments of ControllerPublishVolume.
type attachment struct {
	Capability string `json:"capability"`
	ReadOnly   bool   `json:"readOnly,omitempty"`
}

// usage is what a node uses of a volume, by path. It is written before a path is mounted, and after it is unmounted.
type usage struct {
	Staged    map[string]use `json:"staged,omitempty"`
	Published map[string]use `json:"published,omitempty"`
}

// use has the arguments of NodeStageVolume and NodePublishVolume.
type use struct {
	Capability string `json:"capability"`
	Block      bool   `json:"block,omitempty"`
	// Single reports whether the volume may be published at one path only.
	Single   bool   `json:"single,omitempty"`
	Staging  string `json:"staging,omitempty"`
	ReadOnly bool   `json:"readOnly,omitempty"`
	// Context is the mount option of the SELinux context.
	Context string `json:"context,omitempty"`
}

// store has the state on disk.
type store struct{ dir, node string }

// key is the name of a volume's, or node's, files.
func key(id string) string {
	sum := sha256.Sum256([]byte(id))
	return hex.EncodeToString(sum[:])[:32]
}

func (s store) volumePath(id string) string { return filepath.Join(s.dir, "volumes", key(id)+".json") }

func (s store) usagePath(id string) string {
	return filepath.Join(s.dir, "nodes", key(s.node), key(id)+".json")
}

// lock orders changes of all drivers of the directory, until the result is called.
func (s store) lock() (unlock func(), err error) {
	file, err := os.OpenFile(filepath.Join(s.dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		if err = unix.Flock(int(file.Fd()), unix.LOCK_EX); !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil {
		file.Close()
		return nil, fmt.Errorf("lock %s: %w", file.Name(), err)
	}
	return func() { file.Close() }, nil
}

// get returns a volume, or nil if there is none.
func (s store) get(id string) (*volume, error) {
	v := &volume{}
	found, err := readJSON(s.volumePath(id), v)
	if err != nil || !found {
		return nil, err
	}
	return v, nil
}

// list returns all volumes, in the order of their IDs.
func (s store) list() ([]*volume, error) {
	files, err := os.ReadDir(filepath.Join(s.dir, "volumes"))
	if err != nil {
		return nil, err
	}
	var all []*volume
	for _, file := range files {
		if !strings.HasSuffix(file.Name(), ".json") {
			continue // what renameio writes
		}
		v := &volume{}
		found, err := readJSON(filepath.Join(s.dir, "volumes", file.Name()), v)
		if err != nil {
			return nil, err
		}
		if found {
			all = append(all, v)
		}
	}
	slices.SortFunc(all, func(a, b *volume) int { return strings.Compare(a.ID, b.ID) })
	return all, nil
}

func (s store) put(v *volume) error { return writeJSON(s.volumePath(v.ID), v) }

// change applies a change to a volume, with the lock. It returns nil if there is no such volume.
func (s store) change(id string, change func(*volume) error) (*volume, error) {
	unlock, err := s.lock()
	if err != nil {
		return nil, err
	}
	defer unlock()
	v, err := s.get(id)
	if err != nil || v == nil {
		return nil, err
	}
	if err := change(v); err != nil {
		return nil, err
	}
	return v, s.put(v)
}

func (s store) remove(id string) error {
	return absentIsFine(os.Remove(s.volumePath(id)))
}

// usage returns what this node uses of a volume.
func (s store) usage(id string) (usage, error) {
	u := usage{Staged: map[string]use{}, Published: map[string]use{}}
	_, err := readJSON(s.usagePath(id), &u)
	return u, err
}

func (s store) putUsage(id string, u usage) error {
	if len(u.Staged)+len(u.Published) == 0 {
		return absentIsFine(os.Remove(s.usagePath(id)))
	}
	return writeJSON(s.usagePath(id), u)
}

// users returns the number of nodes that use a volume.
func (s store) users(id string) (int, error) {
	files, err := filepath.Glob(filepath.Join(s.dir, "nodes", "*", key(id)+".json"))
	return len(files), err
}

// prepare makes the directories.
func (s store) prepare() error {
	for _, name := range []string{"volumes", "data", "images", "mounts", filepath.Join("nodes", key(s.node))} {
		if err := os.MkdirAll(filepath.Join(s.dir, name), 0o700); err != nil {
			return err
		}
	}
	return nil
}

func readJSON(path string, to any) (found bool, err error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if err := json.Unmarshal(data, to); err != nil {
		return false, fmt.Errorf("%s: %w", path, err)
	}
	return true, nil
}

func writeJSON(path string, from any) error {
	data, err := json.Marshal(from)
	if err != nil {
		return err
	}
	return renameio.WriteFile(path, data, 0o600)
}

func absentIsFine(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
