package devnode

import (
	"context"
	"os/exec"
	"strconv"
	"strings"
)

// Default returns the containerd of a node for everyday use: Installed if the machine has a containerd of version 1.7
// or later, and otherwise Containerd17. Debian's package of 1.7 is unpacked in seconds, while Containerd2 takes minutes
// to build.
func Default(ctx context.Context) Runtime {
	output, err := exec.CommandContext(ctx, "containerd", "--version").Output()
	if err == nil && current(string(output)) {
		return Installed
	}
	return Containerd17
}

// current reports whether the output of containerd --version names version 1.7 or a later one. The version is the
// third word, for example 1.6.20~ds1 or v2.1.4.
func current(output string) bool {
	words := strings.Fields(output)
	if len(words) < 3 {
		return false
	}
	first, rest, _ := strings.Cut(strings.TrimPrefix(words[2], "v"), ".")
	second, _, _ := strings.Cut(rest, ".")
	major, err := strconv.Atoi(first)
	if err != nil {
		return false
	}
	minor, err := strconv.Atoi(second)
	return major > 1 || err == nil && major == 1 && minor >= 7
}
