package devnode

import (
	"fmt"
	"time"
)

// slow is the minimum duration of a step that is logged.
const slow = time.Second

// step runs do. If that takes more than a second, step logs its start, and later its duration.
func (n *Node) step(what string, do func() error) error {
	began := time.Now()
	notice := time.AfterFunc(slow, func() { n.logf("%s ...", what) })
	err := do()
	// The duration is logged only if the start was.
	if !notice.Stop() && err == nil {
		n.logf("%s took %.1f s", what, time.Since(began).Seconds())
	}
	return err
}

func (n *Node) logf(format string, args ...any) {
	if n.config.Log == nil {
		return
	}
	n.logMu.Lock()
	defer n.logMu.Unlock()
	fmt.Fprintf(n.config.Log, "devnode: "+format+"\n", args...)
}
