package plugins

import (
	"context"
	"errors"
	"time"
)

// Types of plugins, as GetInfo has them.
const (
	// CSIPlugin is the type of CSI drivers.
	CSIPlugin = "CSIPlugin"
	// DRAPlugin is the type of drivers of dynamic resource allocation.
	DRAPlugin = "DRAPlugin"
	// DevicePlugin is the type of device plugins.
	DevicePlugin = "DevicePlugin"
)

// Plugin is a plugin as its registration socket describes it, after all checks.
type Plugin struct {
	// Type is the name of its Kind. Name is unique within the type; a Kind checks its form.
	Type, Name string
	// Versions are the versions of its service, in the plugin's order.
	Versions []string
	// Endpoint is the socket of its service.
	Endpoint Endpoint
	// Socket is the path of the registration socket, and Bound the time at which it was bound.
	Socket string
	Bound  time.Time
}

// ErrStandBy is the verdict of Kind.Admit for a plugin that is to serve its name only when the current one is gone.
var ErrStandBy = errors.New("another plugin of this name is newer")

// Kind handles the plugins of one type. Its methods are called by several goroutines at once.
type Kind interface {
	// Admit decides between two plugins of one name. Nil: next takes the place of current, which stands by. ErrStandBy: next stands
	// by. Another error refuses next, and is its reason: it is tried again. Admit must not block.
	Admit(next, current Plugin) error
	// Open checks the plugin's name and versions, and makes the calls that a registration needs, within ctx. An error refuses the
	// plugin, and is sent to it. It publishes nothing.
	Open(ctx context.Context, p Plugin) (Instance, error)
}

// Instance is one plugin that a Kind has opened. Use and Drop must not block.
type Instance interface {
	// Use makes this plugin the one of its name, in place of another one if there is one.
	Use()
	// Drop is called after Use if the plugin is gone and none takes its place.
	Drop()
	// Close ends the use of connections. It is the last call, and the only one for a plugin that never served.
	Close()
}

// NewestServes is the Admit of kinds whose plugins overlap during an update: of the live sockets of a name the one that was bound
// last serves.
func NewestServes(next, current Plugin) error {
	if next.Bound.Before(current.Bound) {
		return ErrStandBy
	}
	return nil
}
