package kubeletdir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Problem is something wrong with a --kubelet-dir, for podctl doctor.
type Problem struct {
	Text, Advice string
	// Refused is set if podexecd doesn't start with it.
	Refused bool
}

// Examine returns the problems of the directory, as seen in a root directory, such as that of podexecd's process. Directories that
// are missing are no problem: podexecd makes them when it starts. It changes nothing.
func Examine(root, dir string) (all []Problem) {
	if err := CheckPath(dir); err != nil {
		return []Problem{{err.Error(), "give podexecd another --kubelet-dir", true}}
	}
	at := "/"
	for part := range strings.SplitSeq(strings.TrimPrefix(dir, "/"), "/") {
		at = filepath.Join(at, part)
		info, err := os.Lstat(filepath.Join(root, at))
		if errors.Is(err, fs.ErrNotExist) {
			return all
		}
		if err != nil {
			return append(all, Problem{fmt.Sprintf("--kubelet-dir %s: %v", dir, err), "see to it that the directory can be read", true})
		}
		if info.Mode()&fs.ModeSymlink != 0 {
			target, _ := os.Readlink(filepath.Join(root, at)) // Without it, the text is less complete.
			return append(all, Problem{
				fmt.Sprintf("--kubelet-dir %s is reached by the symbolic link %s to %s: a container that mounts one path doesn't have the other", dir, at, target),
				fmt.Sprintf("replace the link by a directory, and mount the target there: mount --bind %s %s, and in /etc/fstab", target, at), false,
			})
		}
		if at == dir {
			all = append(all, wrong(info, at)...)
		}
	}
	for _, name := range names {
		path := filepath.Join(dir, name)
		if info, err := os.Stat(filepath.Join(root, path)); err == nil {
			all = append(all, wrong(info, path)...)
		}
	}
	return all
}

// wrong returns why podexecd refuses a directory.
func wrong(info fs.FileInfo, path string) []Problem {
	if !info.IsDir() {
		return []Problem{{path + " isn't a directory: podexecd doesn't start", "move it away", true}}
	}
	if why, mend := writable(info); why != "" {
		return []Problem{{fmt.Sprintf("%s %s, so that other users could replace the volumes of pods: podexecd doesn't start", path, why), mend + " " + path, true}}
	}
	return nil
}
