package selinuxmount

import (
	"fmt"
	"sync"

	"github.com/opencontainers/selinux/go-selinux"
	"github.com/opencontainers/selinux/go-selinux/label"
	v1 "k8s.io/api/core/v1"
)

// Labels are the labels of a node's policy.
type Labels interface {
	// Enabled reports whether SELinux is enabled on the node: enforcing or permissive. It stays so until the next boot.
	Enabled() bool
	// FileLabel returns the label of files for a container with these options. They have a level. What else is missing
	// has the policy's default. Empty: the node has no policy for containers.
	FileLabel(o *v1.SELinuxOptions) (string, error)
}

// Node are the labels of this node. The zero value is ready, and safe for concurrent use.
type Node struct{ mu sync.Mutex }

var _ Labels = (*Node)(nil)

// Enabled is part of Labels.
func (*Node) Enabled() bool { return selinux.GetEnabled() }

// FileLabel is part of Labels.
func (n *Node) FileLabel(o *v1.SELinuxOptions) (string, error) {
	// The library reserves the categories of a label that it makes, and two pods may have the same ones.
	n.mu.Lock()
	defer n.mu.Unlock()
	process, file, err := label.InitLabels(arguments(o))
	if err != nil {
		return "", fmt.Errorf("compute the label of files by the node's SELinux policy: %w", err)
	}
	selinux.ReleaseLabel(process)
	return file, nil
}

// arguments returns the options as the library has them.
func arguments(o *v1.SELinuxOptions) []string {
	var args []string
	for _, each := range []struct{ name, value string }{{"user", o.User}, {"role", o.Role}, {"type", o.Type}, {"level", o.Level}} {
		if each.value != "" {
			args = append(args, each.name+":"+each.value)
		}
	}
	return args
}
