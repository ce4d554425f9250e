package usage

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/podstream/podstream/test/cluster/nodes"
	"github.com/podstream/podstream/test/devnode"
)

// site is a cluster and a machine with nodes.
type site struct {
	*nodes.Cluster
	dir, tools string
	runtime    devnode.Runtime
	machine    *devnode.Node
	// main is the node that tests share.
	main *node
}

// startSite starts everything, with the programs in the directory tools.
func startSite(ctx context.Context, tools string, runtime devnode.Runtime) (_ *site, err error) {
	s := &site{tools: tools, runtime: runtime}
	if s.dir, err = os.MkdirTemp("", "usage"); err != nil { // short, because it has sockets
		return nil, err
	}
	if err := s.start(ctx); err != nil {
		if s.main != nil {
			err = fmt.Errorf("%w\n%s", err, s.main.Tails())
		}
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

func (s *site) start(ctx context.Context) error {
	audit, err := auditFlags(s.dir)
	if err != nil {
		return err
	}
	s.Cluster, err = nodes.Start(ctx, nodes.Config{
		Dir: s.dir, Tools: s.tools, Runtime: s.runtime, Kubelet: *kubelet, Log: os.Stderr,
		ServerFlags: append(audit, "--enable-admission-plugins=PodNodeSelector"), // a namespace's pods go to one node
	})
	if err != nil {
		return err
	}
	if s.machine, err = s.newMachine(ctx, "machine"); err != nil {
		return err
	}
	s.main = s.nodeOn(s.machine, "main")
	if err := s.main.Launch(); err != nil {
		return err
	}
	return s.main.AwaitReady(ctx)
}

// nodeOn returns a node that is not launched yet.
func (s *site) nodeOn(machine *devnode.Node, name string) *node {
	return &node{Node: s.NewNode(machine, name), site: s}
}

// newMachine starts a containerd with all images.
func (s *site) newMachine(ctx context.Context, name string) (*devnode.Node, error) {
	m, err := s.NewMachine(ctx, name)
	if err != nil {
		return nil, err
	}
	if err := importImages(ctx, m, filepath.Join(s.BinDir(), "sample")); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

// close ends everything, the machine first, because its daemons need the server.
func (s *site) close() error {
	var errs []error
	if s.machine != nil {
		errs = append(errs, s.machine.Close())
	}
	if s.Cluster != nil {
		s.Close()
	}
	return errors.Join(append(errs, os.RemoveAll(s.dir))...)
}
