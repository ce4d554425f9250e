package openfile

import (
	"errors"
	"fmt"
	"os"
	"strings"
)

// Mount returns the number of the mount that an open file is on, as /proc/self/mountinfo has it. Two mounts of one
// file system have the same device number, and different mount numbers. A mount that was detached has a number too.
func Mount(fd int) (string, error) {
	info, err := os.ReadFile(fmt.Sprintf("/proc/self/fdinfo/%d", fd))
	if err != nil {
		return "", fmt.Errorf("find the mount of an open file: %w", err)
	}
	for line := range strings.Lines(string(info)) {
		if number, ok := strings.CutPrefix(line, "mnt_id:"); ok {
			return strings.TrimSpace(number), nil
		}
	}
	return "", errors.New("find the mount of an open file: the kernel doesn't give its number")
}
