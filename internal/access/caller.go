package access

import (
	"context"
	"fmt"
	"os"
	"slices"
)

// Role is what a caller may see and do. A higher role has all rights of a lower one. What a caller may write is apart from
// it: Caller.Writes.
type Role int

const (
	// None may only check whether the daemon is healthy.
	None Role = iota
	// Deployer may see the pods that it has applied.
	Deployer
	// Inspector may see the pods without the parts that may be secret.
	Inspector
	// Consumer may see whole pods and objects, and read logs.
	Consumer
	// Operator may also run commands in containers, and pull and remove images.
	Operator
)

func (r Role) String() string {
	switch r {
	case None:
		return "none"
	case Deployer:
		return "deployer"
	case Inspector:
		return "inspector"
	case Consumer:
		return "consumer"
	case Operator:
		return "operator"
	default:
		return fmt.Sprintf("role %d", int(r))
	}
}

// Caller is the authenticated caller and its rights.
type Caller struct {
	// Identity is "uid:0" on a Unix socket, and over TLS the certificate's common name; without one its first URI or
	// DNS name. No certificate's identity starts with "uid:".
	Identity string
	Role     Role
	// Writes is what the caller may write to podconfigd's source "applied". Nil: nothing, whatever its role is.
	Writes *Writes
	// Nodes and Sources are the scope of the role: everything else is hidden. Empty means no limit. They are shared;
	// don't change them.
	Nodes, Sources []string
	// Elsewhere is set on a Unix socket if the calling process may have another mount namespace than the daemon, as
	// in a container.
	Elsewhere bool
	// Peer is "uid:0", or the IP address. Limits are counted by Peer and Identity.
	Peer string
}

// IsOwner reports whether the caller is root or the daemon's own user; the latter only with the daemon's own mounts.
func (c Caller) IsOwner() bool {
	return c.Identity == uidIdentity(0) || c.Identity == uidIdentity(self) && !c.Elsewhere
}

// OwnOnly reports whether the caller may see only the pods that it has applied.
func (c Caller) OwnOnly() bool { return c.Role == Deployer }

// self is the daemon's own uid; tests replace it.
var self = uint32(os.Geteuid()) //nolint:gosec // A uid has 32 bits.

// HasNode reports whether a node is in the caller's scope.
func (c Caller) HasNode(node string) bool { return len(c.Nodes) == 0 || slices.Contains(c.Nodes, node) }

func (c Caller) equal(o Caller) bool {
	return c.Identity == o.Identity && c.Role == o.Role && c.Peer == o.Peer && c.Writes.equal(o.Writes) &&
		slices.Equal(c.Nodes, o.Nodes) && slices.Equal(c.Sources, o.Sources)
}

type callerKey struct{}

// NewContext returns a context with the caller, as Authorize does, for tests of services.
func NewContext(ctx context.Context, c Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

// FromContext returns the caller of the call with this context. It returns false only outside a call that Authorize
// allowed.
func FromContext(ctx context.Context) (Caller, bool) {
	c, ok := ctx.Value(callerKey{}).(Caller)
	return c, ok
}

// describe is for the log.
func (c Caller) describe() string {
	text := c.Role.String()
	if len(c.Nodes) > 0 || len(c.Sources) > 0 {
		text = fmt.Sprintf("%s of nodes %q and sources %q", c.Role, c.Nodes, c.Sources)
	}
	if w := c.Writes; w != nil && !w.Everything {
		text += fmt.Sprintf(" that may write %s pods to the namespaces %q", w.PodSecurity, w.Namespaces)
	}
	return text
}
