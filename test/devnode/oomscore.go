package devnode

import (
	"os"
	"strconv"
	"strings"
	"sync"
)

// LowersOOMScores reports whether this process, and therefore a containerd that it starts, may lower an OOM score: in a
// container it takes a capability that is seldom given. Without it, containerd keeps its own score as the lowest one.
var LowersOOMScores = sync.OnceValue(func() bool {
	const path = "/proc/self/oom_score_adj"
	text, err := os.ReadFile(path)
	if err != nil {
		return false
	}
	score, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return false
	}
	if err := os.WriteFile(path, []byte(strconv.Itoa(max(score-1, -1000))), 0); err != nil {
		return false
	}
	return os.WriteFile(path, text, 0) == nil
})
