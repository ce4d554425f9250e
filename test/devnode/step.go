package devnode

import (
	"fmt"
	"time"
)

// slow is the duration from which a step is logged.
const slow = time.Second

// step runs do. If that takes more than a second, it logs the step, and later its duration.
func (n *Node) step(what string, do func() error) error {
	began := time.Now()
	notice := time.AfterFunc(slow, func() { n.logf("%s ...", what) })
	err := do()
	// If the notice didn't get to run, neither is there an end to tell.
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
