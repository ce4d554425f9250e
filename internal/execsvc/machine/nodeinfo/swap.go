package nodeinfo

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// Swaps returns the swap devices and files of the machine, as /proc/swaps names them. A kernel without swap has no such
// file. root is the directory of the machine's /proc. Empty: /.
func Swaps(root string) ([]string, error) {
	text, err := os.ReadFile(machine{root: root}.path("proc/swaps"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("failed to determine if swap is on: %w", err)
	}
	var swaps []string
	// The first line is the heading.
	for _, line := range strings.Split(strings.TrimSpace(string(text)), "\n")[1:] {
		if fields := strings.Fields(line); len(fields) > 0 {
			swaps = append(swaps, fields[0])
		}
	}
	return swaps, nil
}
