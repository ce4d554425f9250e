package csi

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/podstream/podstream/internal/execsvc/setup/plugins"
)

// maxDriverName is the maximum length of a driver's name.
const maxDriverName = 63

// Drivers are the registered drivers. It is the plugins.Kind of CSIPlugin, and safe for concurrent use.
type Drivers struct {
	limit   time.Duration
	metrics *metrics

	mu      sync.Mutex
	drivers map[string]*Driver
	// changed is closed at the next change.
	changed chan struct{}
}

// Config configures Drivers.
type Config struct {
	// CallLimit is the time after which a call ends. 0: the package's CallLimit.
	CallLimit time.Duration
	// Metrics registers the histogram of calls. Nil: it isn't served.
	Metrics prometheus.Registerer
}

// New returns Drivers without any driver.
func New(cfg Config) *Drivers {
	if cfg.CallLimit == 0 {
		cfg.CallLimit = CallLimit
	}
	return &Drivers{limit: cfg.CallLimit, metrics: newMetrics(cfg.Metrics), drivers: map[string]*Driver{}, changed: make(chan struct{})}
}

// Get returns the driver of that name, or a *NotRegisteredError. The Driver must be got again for each operation: it refuses calls
// after its end.
func (ds *Drivers) Get(name string) (*Driver, error) {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	if d := ds.drivers[name]; d != nil {
		return d, nil
	}
	return nil, &NotRegisteredError{name}
}

// Registered is a driver of the CSINode.
type Registered struct {
	Name string
	Info NodeInfo
}

// List returns the registered drivers by name, and a channel that is closed when the list, or an answer of NodeGetInfo, has changed.
func (ds *Drivers) List() ([]Registered, <-chan struct{}) {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	all := make([]Registered, 0, len(ds.drivers))
	for name, d := range ds.drivers {
		all = append(all, Registered{name, d.Info()})
	}
	slices.SortFunc(all, func(a, b Registered) int { return strings.Compare(a.Name, b.Name) })
	return all, ds.changed
}

// Changed returns a channel that is closed at the next change. A caller that waits for a driver takes the channel before it calls Get.
func (ds *Drivers) Changed() <-chan struct{} {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	return ds.changed
}

// change changes the drivers, and reports it.
func (ds *Drivers) change(change func()) {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	change()
	close(ds.changed)
	ds.changed = make(chan struct{})
}

// Refresh asks the driver for the node's facts again, such as how many volumes it can have.
func (ds *Drivers) Refresh(ctx context.Context, name string) error {
	d, err := ds.Get(name)
	if err != nil {
		return err
	}
	info, err := d.NodeGetInfo(ctx)
	if err != nil {
		return err
	}
	ds.change(func() { d.setInfo(info) })
	return nil
}

// Admit is part of plugins.Kind: as with the kubelet, a registered driver is replaced only by one whose highest version is higher.
func (ds *Drivers) Admit(next, current plugins.Plugin) error {
	newer, err := version.HighestSupportedVersion(next.Versions)
	if err != nil {
		return err
	}
	if older, err := version.HighestSupportedVersion(current.Versions); err == nil && !older.LessThan(newer) {
		return fmt.Errorf("another driver of the name %s is registered, by %s, with version %s", current.Name, current.Socket, older)
	}
	return nil
}

// Open is part of plugins.Kind: it checks the driver's name and versions, and asks for its NodeGetInfo and its capabilities.
func (ds *Drivers) Open(ctx context.Context, p plugins.Plugin) (plugins.Instance, error) {
	if len(p.Name) > maxDriverName || len(validation.IsDNS1123Subdomain(strings.ToLower(p.Name))) > 0 {
		return nil, fmt.Errorf("%.100q isn't a driver's name: a DNS name of at most %d characters", p.Name, maxDriverName)
	}
	if len(p.Versions) == 0 {
		return nil, errors.New("the driver supports no versions")
	}
	_, err := version.HighestSupportedVersion(p.Versions)
	if err != nil {
		return nil, err
	}
	d := &Driver{name: p.Name, endpoint: p.Endpoint, limit: ds.limit, metrics: ds.metrics}
	if d.info, err = d.NodeGetInfo(ctx); err == nil {
		_, err = d.Capabilities(ctx)
	}
	if err != nil {
		d.close()
		return nil, err
	}
	return &instance{ds, d}, nil
}

// instance is part of the plugin manager's view of a Driver.
type instance struct {
	drivers *Drivers
	driver  *Driver
}

// Use is part of plugins.Instance.
func (i *instance) Use() { i.drivers.change(func() { i.drivers.drivers[i.driver.name] = i.driver }) }

// Drop is part of plugins.Instance.
func (i *instance) Drop() { i.drivers.change(func() { delete(i.drivers.drivers, i.driver.name) }) }

// Close is part of plugins.Instance.
func (i *instance) Close() { i.driver.close() }

func (d *Driver) setInfo(info NodeInfo) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.info = info
}
