package csidriver

import (
	"context"
	"slices"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// attached is the key of a publish context, with the node's ID as value.
const attached = "csi.podstream.test/node"

// ControllerPublishVolume is part of csipb.ControllerServer.
func (c controller) ControllerPublishVolume(
	_ context.Context, r *csipb.ControllerPublishVolumeRequest,
) (*csipb.ControllerPublishVolumeResponse, error) {
	if !c.d.opts.AttachRequired {
		return nil, status.Error(codes.Unimplemented, "volumes of this driver aren't attached")
	}
	if err := required("volume_id", r.GetVolumeId(), "node_id", r.GetNodeId()); err != nil {
		return nil, err
	}
	if r.GetVolumeCapability() == nil {
		return nil, invalid("volume_capability is missing")
	}
	if err := c.d.supports(r.GetVolumeCapability()); err != nil {
		return nil, err
	}
	capability, err := textOf(r.GetVolumeCapability())
	if err != nil {
		return nil, internal(err)
	}
	if _, err := c.d.volume(r.GetVolumeId()); err != nil {
		return nil, err
	}
	if r.GetNodeId() != c.d.opts.NodeID && !slices.Contains(c.d.opts.OtherNodes, r.GetNodeId()) {
		return nil, notFound("there is no node %s", r.GetNodeId())
	}
	all, err := c.d.store.list()
	if err != nil {
		return nil, internal(err)
	}
	wanted := attachment{Capability: capability, ReadOnly: r.GetReadonly()}
	_, err = c.d.store.change(r.GetVolumeId(), func(v *volume) error {
		if now, has := v.Attached[r.GetNodeId()]; has {
			if now != wanted {
				return conflict("volume %s is attached to %s with other arguments", v.ID, r.GetNodeId())
			}
			return nil
		}
		if len(v.Attached) > 0 && singleNode(r.GetVolumeCapability()) {
			return precondition("volume %s is attached to another node", v.ID)
		}
		if c.d.opts.MaxVolumes > 0 && countAttached(all, r.GetNodeId()) >= c.d.opts.MaxVolumes {
			return status.Errorf(codes.ResourceExhausted, "node %s has %d volumes already", r.GetNodeId(), c.d.opts.MaxVolumes)
		}
		if v.Attached == nil {
			v.Attached = map[string]attachment{}
		}
		v.Attached[r.GetNodeId()] = wanted
		return nil
	})
	if err != nil {
		return nil, internal(err)
	}
	return &csipb.ControllerPublishVolumeResponse{PublishContext: map[string]string{attached: r.GetNodeId()}}, nil
}

func countAttached(all []*volume, node string) (n int64) {
	for _, v := range all {
		if _, has := v.Attached[node]; has {
			n++
		}
	}
	return n
}

// ControllerUnpublishVolume is part of csipb.ControllerServer.
func (c controller) ControllerUnpublishVolume(
	_ context.Context, r *csipb.ControllerUnpublishVolumeRequest,
) (*csipb.ControllerUnpublishVolumeResponse, error) {
	if !c.d.opts.AttachRequired {
		return nil, status.Error(codes.Unimplemented, "volumes of this driver aren't attached")
	}
	if err := required("volume_id", r.GetVolumeId()); err != nil {
		return nil, err
	}
	_, err := c.d.store.change(r.GetVolumeId(), func(v *volume) error {
		if r.GetNodeId() == "" {
			v.Attached = nil
		} else {
			delete(v.Attached, r.GetNodeId())
		}
		return nil
	})
	if err != nil {
		return nil, internal(err)
	}
	return &csipb.ControllerUnpublishVolumeResponse{}, nil
}
