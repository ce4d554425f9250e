package csivolume

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"

	"github.com/podstream/podstream/internal/execsvc/setup/csi"
	"github.com/podstream/podstream/internal/execsvc/setup/foreign"
	"github.com/podstream/podstream/internal/execsvc/setup/storage"
	"github.com/podstream/podstream/internal/execsvc/setup/storage/record"
	"github.com/podstream/podstream/internal/mounttable"
)

var (
	_ storage.Backend   = (*Backend)(nil)
	_ storage.Registers = (*Backend)(nil)
)

// Backend makes the calls of package storage to CSI drivers.
type Backend struct {
	cfg    Config
	groups *foreign.Groups
	// mountTable is for tests.
	mountTable string
}

// New returns a Backend. Close ends its goroutines.
func New(cfg Config) *Backend {
	if cfg.Helpers == nil {
		cfg.Helpers = foreign.New(foreign.Config{Log: cfg.Log})
	}
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	return &Backend{cfg: cfg, groups: foreign.NewGroups(cfg.Helpers.SetGroup), mountTable: mounttable.Path}
}

// MountPoint is part of storage.Backend.
func (b *Backend) MountPoint(dir string) string { return filepath.Join(dir, storage.MountDir) }

// VolumeName is part of storage.Backend.
func (b *Backend) VolumeName(k record.Key) string { return k.Driver + "^" + k.Handle }

// Close ends the changes of groups. No other method may be called after it.
func (b *Backend) Close() { b.groups.Close() }

// IsAway is part of storage.Registers.
func (b *Backend) IsAway(driver string, last error) bool {
	if _, was := errors.AsType[*csi.NotRegisteredError](last); !was {
		return false
	}
	_, err := b.cfg.Drivers.Get(driver)
	return err != nil
}

// driver returns the driver of a call, once it can be reached. What fails here was before the call. prefix is upstream's.
func (b *Backend) driver(ctx context.Context, name, prefix string) (*csi.Driver, csi.Capabilities, error) {
	d, err := b.cfg.Drivers.Get(name)
	var can csi.Capabilities
	if err == nil {
		// The driver is only asked if its socket is a new one. A driver that is away is noticed here.
		can, err = d.Capabilities(ctx)
	}
	if err != nil {
		return nil, can, notSent(fmt.Errorf(PluginName+": %s: %w", prefix, err))
	}
	return d, can, nil
}

// secret returns the secret of a call. field is the name the field of the reference.
func (b *Backend) secret(ctx context.Context, field string, ref *secretRef) (map[string]string, error) {
	if ref == nil {
		return nil, nil //nolint:nilnil // A call without a secret has an empty map.
	}
	if b.cfg.Secrets == nil {
		return nil, unrepeatable(fmt.Errorf("fetching %s %s/%s failed: this node has no secrets", field, ref.Namespace, ref.Name))
	}
	data, err := b.cfg.Secrets.Secret(ctx, ref.Namespace, ref.Name)
	if err != nil {
		return nil, missing(fmt.Errorf("fetching %s %s/%s failed: "+PluginName+": %w", field, ref.Namespace, ref.Name, err))
	}
	return data, nil
}
