package cridiff

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	v1 "k8s.io/api/core/v1"
)

// maxContent is the largest file whose content is compared.
const maxContent = 64 << 10

// hostsFile is the path of a pod's hosts file. The kubelet empties it before it writes it, at each start of a container.
const hostsFile = "etc-hosts"

// rewriting is the longest time that the hosts file stays empty.
const rewriting = 2 * time.Second

// contentOf returns the content of a file with that fileText.
func contentOf(text string) string {
	_, content, _ := strings.Cut(text, "\n")
	return content
}

// version matches the directory of one version of a volume's files, which is named by the time.
var version = regexp.MustCompile(`\.\.\d{4}(_\d\d){5}\.\d+`)

// filesOf returns the files that the agent made for its pod, by path: the hosts file and the volumes, with owner, mode and
// content. The agent is the process of that ID, in a mount namespace of its own.
func (s *Site) filesOf(pid int, pod *v1.Pod) (Fields, error) {
	root := filepath.Join(fmt.Sprintf("/proc/%d/root", pid), s.path("root", "pods", string(pod.UID)))
	files := Fields{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		if name != hostsFile && !strings.HasPrefix(name, "volumes/") {
			return nil
		}
		text, err := fileText(path, entry)
		for begin := time.Now(); err == nil && name == hostsFile && contentOf(text) == "" && time.Since(begin) < rewriting; {
			text, err = fileText(path, entry)
		}
		if err != nil {
			return err
		}
		files[version.ReplaceAllString(name, "..TIME")] = version.ReplaceAllString(text, "..TIME")
		return nil
	})
	if os.IsNotExist(err) {
		err = nil
	}
	return files, err
}

// fileText returns the file's mode and owner, and its content or target.
func fileText(path string, entry fs.DirEntry) (string, error) {
	info, err := entry.Info()
	if err != nil {
		return "", err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return "", fmt.Errorf("%s has no owner", path)
	}
	text := fmt.Sprintf("%s %d:%d", info.Mode(), stat.Uid, stat.Gid)
	switch {
	case info.Mode().IsRegular() && info.Size() <= maxContent:
		content, err := os.ReadFile(path)
		if err != nil {
			return "", err
		}
		text += "\n" + string(content)
	case info.Mode()&fs.ModeSymlink != 0:
		target, err := os.Readlink(path)
		if err != nil {
			return "", err
		}
		text += " " + target
	}
	return text, nil
}
