package world

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	"github.com/podstream/podstream/test/devnode"
	"github.com/podstream/podstream/test/rig"
)

// bench is a pair of daemons, and the journal of its podexecd.
type bench struct {
	*rig.Rig
	*journal

	stop func()
	// names are the names of the current pods, without the node's suffix.
	names sync.Map
}

// benches are the benches that tests share.
var benches = map[devnode.Runtime]*sharedBench{devnode.Containerd2: {}, devnode.Containerd17: {}}

type sharedBench struct {
	once  sync.Once
	bench *bench
	err   error
}

func shared(t *testing.T, kind devnode.Runtime) *bench {
	t.Helper()
	node := startNode(t, kind, nodes.shared)
	s := benches[kind]
	s.once.Do(func() { s.bench, s.err = newBench(node) })
	check(t, s.err)
	return s.bench
}

func closeBenches() error {
	var errs []error
	for _, s := range benches {
		if s.bench != nil {
			errs = append(errs, s.bench.close())
		}
	}
	return errors.Join(errs...)
}

var made atomic.Int32

// newBench starts a pair of daemons; flags are podexecd's.
func newBench(node *devnode.Node, flags ...string) (*bench, error) {
	r, err := rig.Start(node, fmt.Sprintf("w%d", made.Add(1)), flags...)
	if err != nil {
		return nil, err
	}
	// If podexecd can't start, fail here and not at the first wait for a pod.
	if err := devnode.WaitServing(context.Background(), r.Podexecd, "unix://"+r.ExecSocket()); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	ctx, cancel := context.WithCancel(context.Background())
	b := &bench{Rig: r, journal: newJournal()}
	wait := b.follow(ctx, r.Exec)
	b.stop = func() { cancel(); wait() }
	return b, nil
}

// close ends the bench. It returns an error if anything of a pod is left after all manifests are removed.
func (b *bench) close() error {
	err := b.Clear()
	if left := b.awaitEmpty(); left != nil {
		err = errors.Join(err, fmt.Errorf("of the pods of %s something is left: %w\npodexecd's log ends with:\n%s", b.Name, left, b.Podexecd.LogTail()))
	}
	b.stop()
	return errors.Join(err, b.Close())
}

// awaitEmpty polls, because no event reports when the kernel has removed cgroups and mounts.
func (b *bench) awaitEmpty() error {
	return rig.Poll(patience, func() error {
		if err := b.Empty(context.Background()); err != nil {
			return err
		}
		dirs, err := b.Node.CgroupDirs()
		if err != nil {
			return err
		}
		for _, dir := range dirs {
			if _, of, ours := strings.Cut(dir, "/"+b.Name+"-podexecd/"); ours && strings.Contains(of, "/pod") {
				return fmt.Errorf("cgroup %s is there", dir)
			}
		}
		return nil
	})
}

// findings are what podconfigd has against a manifest, a line each.
func (b *bench) findings(ctx context.Context, file string) ([]string, error) {
	resp, err := b.Config.ListSources(ctx, &podconfigv1.ListSourcesRequest{})
	if err != nil {
		return nil, err
	}
	var lines []string
	for _, s := range resp.GetSources() {
		for _, f := range s.GetFindings() {
			if f.GetSeverity() != podconfigv1.FindingSeverity_FINDING_SEVERITY_WARNING && strings.HasSuffix(f.GetOrigin(), "/"+file) {
				lines = append(lines, f.GetField()+": "+f.GetMessage())
			}
		}
	}
	return lines, nil
}
