package kubeletdir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/renameio/v2"
	"golang.org/x/sys/unix"

	"github.com/podstream/podstream/internal/openfile"
)

// ownerName is the name of the file in --kubelet-dir with the ID of the podexecd that made the directories of pods.
const ownerName = "podexecd-agent-id"

// maxOwner bounds that file, in bytes.
const maxOwner = 1 << 10

// own records that the directories of pods are this podexecd's. It is an error if they may be another agent's: podexecd would
// remove the directories of pods that it doesn't run. Without a record, those in its own --root-dir are its own: an earlier version
// made them; that version had no persistent volumes. It never takes those of another podexecd, as it adopts only pods of a kubelet.
func own(cfg Config) error {
	owner, err := readOwner(cfg.Path)
	if err != nil {
		return err
	}
	if owner == cfg.Agent {
		return nil
	}
	foreign, err := Pods{Current: PodsDir(cfg.Path)}.List()
	switch {
	case err != nil:
		return err
	case len(foreign) == 0:
	case owner != "":
		return fmt.Errorf("--kubelet-dir: %s has the directories of %d pods, such as %.64q, of another podexecd, with the agent ID %.64q; "+
			"drain the node with that podexecd, and then start this one, or give this one another --kubelet-dir; "+
			"if it is the same podexecd that lost its --root-dir, write that ID to %s", PodsDir(cfg.Path), len(foreign), string(foreign[0]), owner,
			filepath.Join(cfg.RootDir, "agent-id"))
	case !cfg.Adopt && !same(cfg.Path, cfg.RootDir):
		return fmt.Errorf("--kubelet-dir: %s has the directories of %d pods of a kubelet, such as %.64q; start podexecd with --adopt-kubelet-pods, "+
			"which takes over the pods that run and removes the directories of others, or give it another --kubelet-dir",
			PodsDir(cfg.Path), len(foreign), string(foreign[0]))
	}
	if err := leftVolumes(cfg.Path); err != nil {
		return err
	}
	err = renameio.WriteFile(filepath.Join(cfg.Path, ownerName), []byte(cfg.Agent+"\n"), 0o600)
	if errors.Is(err, unix.EROFS) {
		return nil // lock has reported it, and no pod can start.
	}
	if err != nil {
		return fmt.Errorf("record the owner of --kubelet-dir: %w", err)
	}
	return nil
}

// readOwner returns the ID in the file; "" without a file.
func readOwner(dir string) (string, error) {
	file, err := openfile.OpenBeneath(dir, ownerName)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read the owner of --kubelet-dir: %w", err)
	}
	defer file.Close()
	data := make([]byte, maxOwner)
	n, _ := file.ReadAt(data, 0) // Of a file that can't be read, the ID isn't this podexecd's.
	return strings.TrimSpace(string(data[:n])), nil
}

// same reports whether both paths are one directory.
func same(a, b string) bool {
	one, err := os.Stat(a)
	if err != nil {
		return false
	}
	other, err := os.Stat(b)
	return err == nil && os.SameFile(one, other)
}
