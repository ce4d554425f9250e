package cridiff

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"

	v1 "k8s.io/api/core/v1"
)

const (
	// cgroupMount is where the kernel's cgroups are.
	cgroupMount = "/sys/fs/cgroup"
	// kubepods is the slice of all pods.
	kubepods = "kubepods.slice"
	// systemdSettings is where systemd stores what programs set of its units, until the next boot.
	systemdSettings = "/run/systemd/system.control"
)

// limits are the files of cgroups that agents and runtimes write, of version 1 and 2.
var limits = regexp.MustCompile(`^(cpu\.(shares|cfs_quota_us|cfs_period_us|max|weight)|cpuset\.(cpus|mems)|pids\.max|io\.weight|` +
	`memory\.(limit_in_bytes|memsw\.limit_in_bytes|max|high|min|low|swap\.max|oom\.group)|hugetlb\..*\.(limit_in_bytes|max))$`)

// cgroupsOf returns the limits of the pod's cgroup, and of those above and below it, by path.
func (s *Site) cgroupsOf(pod *v1.Pod) (tree, error) {
	root := s.CgroupRoot
	if s.Systemd {
		root = "/" + kubepods
	}
	return cgroupFiles(cgroupMount, root, string(pod.UID))
}

// cgroupFiles returns the limits of a pod's cgroups below root, in all hierarchies.
func cgroupFiles(mount, root, uid string) (tree, error) {
	dirs, err := cgroupDirs(mount, root)
	if err != nil {
		return nil, err
	}
	slice := "-pod" + strings.ReplaceAll(uid, "-", "_") + ".slice"
	files := tree{}
	for _, dir := range dirs {
		if name := filepath.Base(dir); name != "pod"+uid && !strings.HasSuffix(name, slice) {
			continue
		}
		for _, of := range dirs {
			if !within(of, dir) && !within(dir, of) {
				continue
			}
			if err := addLimits(files, of, strings.Replace(of, root, "", 1)); err != nil {
				return nil, err
			}
		}
	}
	return files, nil
}

// cgroupDirs returns root and all cgroups below it, in all hierarchies; those above others first.
func cgroupDirs(mount, root string) ([]string, error) {
	var dirs []string
	for _, pattern := range []string{mount + root, mount + "/*" + root} {
		roots, err := filepath.Glob(pattern)
		if err != nil {
			return nil, err
		}
		for _, root := range roots {
			err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
				if gone(err) {
					return nil
				}
				if err == nil && entry.IsDir() {
					dirs = append(dirs, path)
				}
				return err
			})
			if err != nil {
				return nil, err
			}
		}
	}
	return dirs, nil
}

// within reports whether path is dir or below it.
func within(path, dir string) bool { return strings.HasPrefix(path+"/", dir+"/") }

// addLimits adds the limits of one cgroup.
func addLimits(files tree, dir, name string) error {
	entries, err := os.ReadDir(dir)
	if err != nil && !gone(err) {
		return err
	}
	for _, entry := range entries {
		if !limits.MatchString(entry.Name()) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, entry.Name()))
		if gone(err) {
			continue
		}
		if err != nil {
			return err
		}
		files[filepath.Join(name, entry.Name())] = strings.TrimSpace(string(text))
	}
	return nil
}

// gone reports whether a cgroup went away while it was read.
func gone(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENODEV) }

// ClearSlices ends what runs in the slices of pods, and removes them with their settings.
func ClearSlices() error {
	for _, command := range [][]string{{"systemctl", "stop", kubepods}, {"systemctl", "daemon-reload"}} {
		if out, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w: %s", strings.Join(command, " "), err, out)
		}
		settings, err := filepath.Glob(filepath.Join(systemdSettings, "kubepods*"))
		if err != nil {
			return err
		}
		for _, dir := range settings {
			if err := os.RemoveAll(dir); err != nil {
				return err
			}
		}
	}
	if _, err := os.Stat(filepath.Join(cgroupMount, kubepods)); !gone(err) {
		return fmt.Errorf("%s exists after it was stopped: %w", kubepods, err)
	}
	return nil
}
