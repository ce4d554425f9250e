package podctl

import (
	"cmp"
	"context"
	"strings"
	"sync"
	"time"
)

// nodeNamePatience is the time limit for finding the node's name. Without it, full names still work.
const nodeNamePatience = 2 * time.Second

// nodeName returns the name of the daemons' node, the suffix of its static pods.
func (t *tool) nodeName(ctx context.Context) string {
	name, _ := t.askNodeName(ctx)
	return name
}

// askNodeName returns the node's name, and reports whether podexecd has answered. podexecd's answer comes first, as a
// gateway's podconfigd serves the pods of many nodes. Without an answer it is the host's name.
func (t *tool) askNodeName(ctx context.Context) (name string, reached bool) {
	ctx, cancel := context.WithTimeout(ctx, nodeNamePatience)
	defer cancel()
	var (
		wg              sync.WaitGroup
		config, execute buildInfo
		executeErr      error
	)
	// The errors aren't reported: the next call fails with them too, and reports them.
	wg.Go(func() { config, _ = t.podconfigVersion(ctx) })
	wg.Go(func() { execute, executeErr = t.podexecVersion(ctx) })
	wg.Wait()
	return cmp.Or(execute.node, config.node, strings.ToLower(t.Hostname)), executeErr == nil
}
