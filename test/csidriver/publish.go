package csidriver

import (
	"context"
	"errors"
	"io/fs"
	"os"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
)

// ephemeral is the key of a volume's context that the agent sets for inline volumes.
const ephemeral = "csi.storage.k8s.io/ephemeral"

// NodePublishVolume is part of csipb.NodeServer.
func (n node) NodePublishVolume(ctx context.Context, r *csipb.NodePublishVolumeRequest) (*csipb.NodePublishVolumeResponse, error) {
	if err := required("volume_id", r.GetVolumeId(), "target_path", r.GetTargetPath()); err != nil {
		return nil, err
	}
	if r.GetVolumeCapability() == nil {
		return nil, invalid("volume_capability is missing")
	}
	inline := r.GetVolumeContext()[ephemeral] == "true"
	if inline {
		if err := n.d.makeInline(r.GetVolumeId()); err != nil {
			return nil, internal(err)
		}
	}
	wanted, v, err := n.d.wanted(r.GetVolumeId(), r.GetVolumeCapability(), r.GetPublishContext())
	if err != nil {
		return nil, err
	}
	wanted.Staging, wanted.ReadOnly = r.GetStagingTargetPath(), r.GetReadonly()
	u, err := n.d.store.usage(v.ID)
	if err != nil {
		return nil, internal(err)
	}
	if err := u.checkContext(wanted); err != nil {
		return nil, err
	}
	if err := n.d.mayPublish(v, u, r.GetTargetPath(), wanted, inline); err != nil {
		return nil, err
	}
	if err := n.d.publish(ctx, v, u, wanted, r); err != nil {
		return nil, internal(err)
	}
	return &csipb.NodePublishVolumeResponse{}, nil
}

// mayPublish returns why a volume can't be published at a target.
func (d *Driver) mayPublish(v *volume, u usage, target string, wanted use, inline bool) error {
	if now, has := u.Published[target]; has && now != wanted {
		return conflict("volume %s is published at %s with other arguments", v.ID, target)
	}
	for other, now := range u.Published {
		if other != target && (now.Single || wanted.Single) {
			return precondition("volume %s is published at %s, and has a single writer", v.ID, other)
		}
	}
	if d.opts.can(Stage) && !inline {
		if wanted.Staging == "" {
			return precondition("staging_target_path is missing")
		}
		if _, has := u.Staged[wanted.Staging]; !has {
			return precondition("volume %s isn't staged at %s", v.ID, wanted.Staging)
		}
	}
	return nil
}

// publish records and mounts.
func (d *Driver) publish(ctx context.Context, v *volume, u usage, wanted use, r *csipb.NodePublishVolumeRequest) error {
	source := wanted.Staging
	if !d.opts.can(Stage) || v.Inline {
		source = d.ownStaging(v.ID)
		if err := os.MkdirAll(source, 0o700); err != nil {
			return err
		}
		if err := d.stage(ctx, v, source, u, use{Block: wanted.Block, Context: wanted.Context}, r.GetVolumeCapability()); err != nil {
			return err
		}
	}
	if wanted.Block {
		var err error
		if source, err = d.backing.device(ctx, v); err != nil {
			return err
		}
	} else if is, err := isMounted(source); err != nil || !is {
		// After a start of the machine: publishing the empty directory would hide the volume's data.
		return errors.Join(err, precondition("nothing is mounted at %s", source))
	}
	u.Published[r.GetTargetPath()] = wanted
	if err := d.store.putUsage(v.ID, u); err != nil {
		return err
	}
	if err := makeTarget(r.GetTargetPath(), wanted.Block); err != nil {
		return err
	}
	flags, _ := split(r.GetVolumeCapability().GetMount().GetMountFlags())
	if r.GetReadonly() {
		flags |= unix.MS_RDONLY
	}
	if err := bind(source, r.GetTargetPath(), flags); err != nil {
		return err
	}
	if r.GetReadonly() {
		return nil
	}
	return setGroup(r.GetTargetPath(), r.GetVolumeCapability())
}

// makeInline makes an inline volume, if it doesn't exist.
func (d *Driver) makeInline(id string) error {
	unlock, err := d.store.lock()
	if err != nil {
		return err
	}
	defer unlock()
	v, err := d.store.get(id)
	if err != nil || v != nil {
		return err
	}
	return d.make(&volume{ID: id, Name: id, Size: DefaultSize, Inline: true})
}

// NodeUnpublishVolume is part of csipb.NodeServer.
func (n node) NodeUnpublishVolume(ctx context.Context, r *csipb.NodeUnpublishVolumeRequest) (*csipb.NodeUnpublishVolumeResponse, error) {
	if err := required("volume_id", r.GetVolumeId(), "target_path", r.GetTargetPath()); err != nil {
		return nil, err
	}
	if err := n.d.unpublish(ctx, r.GetVolumeId(), r.GetTargetPath()); err != nil {
		return nil, internal(err)
	}
	return &csipb.NodeUnpublishVolumeResponse{}, nil
}

// unpublish undoes publish. Where nothing was published, it does nothing.
func (d *Driver) unpublish(ctx context.Context, id, target string) error {
	u, err := d.store.usage(id)
	if err != nil {
		return err
	}
	if _, has := u.Published[target]; has {
		if err := unmount(target); err != nil {
			return err
		}
		if err := os.Remove(target); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		delete(u.Published, target)
	}
	if len(u.Published) == 0 {
		own := d.ownStaging(id)
		if err := d.unstage(ctx, id, own, u); err != nil {
			return err
		}
		if err := absentIsFine(os.Remove(own)); err != nil {
			return err
		}
	}
	if err := d.store.putUsage(id, u); err != nil {
		return err
	}
	return d.removeInline(id, u)
}

// removeInline removes an inline volume that is published nowhere.
func (d *Driver) removeInline(id string, u usage) error {
	unlock, err := d.store.lock()
	if err != nil {
		return err
	}
	defer unlock()
	v, err := d.store.get(id)
	if err != nil || v == nil || !v.Inline || len(u.Published) > 0 {
		return err
	}
	if err := d.backing.remove(v); err != nil {
		return err
	}
	return d.store.remove(id)
}
