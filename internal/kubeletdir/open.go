package kubeletdir

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
)

// Config configures Open. All fields but Adopt are needed.
type Config struct {
	// Path is --kubelet-dir, and RootDir podexecd's --root-dir, which is never locked here.
	Path, RootDir string
	// Agent is podexecd's agent ID.
	Agent string
	// Adopt has podexecd take the directories of a kubelet's pods.
	Adopt  bool
	Logger *slog.Logger
}

// Dir is an open --kubelet-dir.
type Dir struct {
	// Pods are the places of the pods' directories.
	Pods Pods
	// file is locked. It may be nil.
	file *os.File
}

// Open makes the directories and locks them for this process. Its errors name the path, the cause, and what to do.
func Open(cfg Config) (*Dir, error) {
	if err := makeRoot(cfg.Path); err != nil {
		return nil, err
	}
	if err := checkAncestors(cfg.Path, cfg.Logger); err != nil {
		return nil, err
	}
	file, err := lock(cfg.Path, cfg.RootDir, cfg.Logger)
	if err != nil {
		return nil, err
	}
	d := &Dir{file: file}
	if d.Pods, err = fill(cfg); err != nil {
		d.Close()
		return nil, err
	}
	if previous := d.Pods.Previous; previous != "" {
		cfg.Logger.Info("pods of an earlier version keep their directories until they end; pods that start get theirs in --kubelet-dir",
			"previous", previous, "path", d.Pods.Current)
	}
	return d, nil
}

// Close unlocks the directory.
func (d *Dir) Close() {
	if d != nil && d.file != nil {
		_ = d.file.Close()
	}
}

func makeRoot(path string) error {
	// The error of a read-only file system is that of the first directory that is missing.
	if err := os.MkdirAll(path, dirMode); err != nil {
		return fmt.Errorf("make --kubelet-dir: %w", err)
	}
	return checkDir(path)
}

// fill makes the directories in --kubelet-dir.
func fill(cfg Config) (Pods, error) {
	for _, name := range names {
		path := filepath.Join(cfg.Path, name)
		if err := os.Mkdir(path, dirMode); err != nil && !errors.Is(err, fs.ErrExist) {
			return Pods{}, fmt.Errorf("make the directories of --kubelet-dir: %w", err)
		}
		if err := checkDir(path); err != nil {
			return Pods{}, err
		}
	}
	if err := own(cfg); err != nil {
		return Pods{}, err
	}
	return NewPods(cfg.Path, cfg.RootDir)
}

// checkDir returns an error if the path isn't a directory, or if other users than root and podexecd's can write to it: each of
// them could register a plugin, or replace the volumes of pods.
func checkDir(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("--kubelet-dir: %w", err)
	}
	if !info.IsDir() {
		return fmt.Errorf("--kubelet-dir: %s isn't a directory; move it away", path)
	}
	if why, mend := writable(info); why != "" {
		return fmt.Errorf("--kubelet-dir: %s %s, so that other users could replace the volumes of pods; run: %s %s", path, why, mend, path)
	}
	return nil
}

// writable returns how other users than root and this process's can write to a directory, and the command that ends it. Empty:
// they can't.
func writable(info fs.FileInfo) (why, mend string) {
	mode := info.Mode().Perm()
	stat, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case ok && stat.Uid != 0 && int(stat.Uid) != os.Geteuid():
		return fmt.Sprintf("belongs to the user %d", stat.Uid), "chown root"
	case mode&0o002 != 0:
		return fmt.Sprintf("has the mode %04o", mode), "chmod go-w"
	case mode&0o020 != 0 && ok && stat.Gid != 0 && int(stat.Gid) != os.Getegid():
		return fmt.Sprintf("has the mode %04o, and the group %d", mode, stat.Gid), "chmod go-w"
	}
	return "", ""
}

// checkAncestors reports links on the way to the directory, and ancestors that other users can write to. Neither is an error:
// nodes with them have worked, and the links of a large disk are common. A sticky directory, such as /tmp, is safe.
func checkAncestors(path string, log *slog.Logger) error {
	resolved, err := filepath.EvalSymlinks(path)
	if err != nil {
		return fmt.Errorf("--kubelet-dir: %w", err)
	}
	if resolved != path {
		log.Warn("--kubelet-dir is reached by a symbolic link; a container that mounts it needs both paths: mount the directory there with mount --bind "+
			"in place of the link", "path", path, "target", resolved)
	}
	for dir := filepath.Dir(resolved); ; dir = filepath.Dir(dir) {
		info, err := os.Stat(dir)
		if err != nil {
			return fmt.Errorf("--kubelet-dir: %w", err)
		}
		if why, mend := writable(info); why != "" && (info.Mode()&fs.ModeSticky == 0) {
			log.Warn("other users can replace --kubelet-dir, and with it the volumes of pods", "path", path, "directory", dir, "cause", why, "run", mend+" "+dir)
		}
		if dir == "/" {
			return nil
		}
	}
}
