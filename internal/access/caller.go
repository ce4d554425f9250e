package access

import (
	"context"
	"fmt"
	"slices"
)

// Role is what a caller may see and do. A higher role may do all that a lower one may.
type Role int

const (
	// None may ask nothing but whether the daemon is healthy.
	None Role = iota
	// Inspector sees what runs, but not what may be secret in it.
	Inspector
	// Consumer sees whole pods and objects, and reads logs.
	Consumer
	// Operator also runs commands in containers.
	Operator
)

func (r Role) String() string {
	switch r {
	case None:
		return "none"
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

// Caller is who makes a call, and what the access rules grant.
type Caller struct {
	// Identity is "uid:0" on a Unix socket, and over TLS the certificate's common name; without one its first URI or DNS name. No
	// certificate's identity begins with "uid:".
	Identity string
	Role     Role
	// Nodes and Sources are the scope of the role: nothing else may be seen. Empty: everything. They are shared; don't change them.
	Nodes, Sources []string
	// Peer is what limits are counted by: "uid:0", or the IP address.
	Peer string
}

func (c Caller) equal(o Caller) bool {
	return c.Identity == o.Identity && c.Role == o.Role && c.Peer == o.Peer &&
		slices.Equal(c.Nodes, o.Nodes) && slices.Equal(c.Sources, o.Sources)
}

type callerKey struct{}

// NewContext returns a context with the caller: what Authorize does, for tests of services.
func NewContext(ctx context.Context, c Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

// FromContext is the caller of the call with this context. It is false only outside a call that Authorize let pass.
func FromContext(ctx context.Context) (Caller, bool) {
	c, ok := ctx.Value(callerKey{}).(Caller)
	return c, ok
}

// describe is for the log.
func (c Caller) describe() string {
	if len(c.Nodes) == 0 && len(c.Sources) == 0 {
		return c.Role.String()
	}
	return fmt.Sprintf("%s of nodes %q and sources %q", c.Role, c.Nodes, c.Sources)
}
