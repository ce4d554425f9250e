package csi

import (
	"context"
	"errors"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
)

// stubOf is a method of the generated client.
type stubOf[Request, Answer any] func(context.Context, Request, ...grpc.CallOption) (Answer, error)

// Errors of requests that lack a field; nothing is sent. They have the kubelet's texts.
var (
	errNoVolume  = errors.New("missing volume id")
	errNoTarget  = errors.New("missing target path")
	errNoStaging = errors.New("missing staging target path")
	errNoPath    = errors.New("missing volume path")
	errSize      = errors.New("size can not be less than 0")
)

// Stage is a request to stage a volume.
type Stage struct {
	// VolumeID is the volume's handle, and StagingPath the directory that the driver mounts it on.
	VolumeID, StagingPath string
	Access                Access
	// PublishContext is that of the VolumeAttachment, and VolumeContext the attributes of the PersistentVolume.
	PublishContext, VolumeContext, Secrets map[string]string
}

// NodeStageVolume stages a volume.
func (d *Driver) NodeStageVolume(ctx context.Context, s Stage) error {
	if err := missing(s.VolumeID, errNoVolume, s.StagingPath, errNoStaging); err != nil {
		return err
	}
	_, err := invokeFor(ctx, d, "NodeStageVolume", s.Access, func(c *csipb.VolumeCapability) *csipb.NodeStageVolumeRequest {
		return &csipb.NodeStageVolumeRequest{
			VolumeId: s.VolumeID, PublishContext: s.PublishContext, StagingTargetPath: s.StagingPath, VolumeCapability: c,
			Secrets: s.Secrets, VolumeContext: s.VolumeContext,
		}
	}, func(n csipb.NodeClient) stubOf[*csipb.NodeStageVolumeRequest, *csipb.NodeStageVolumeResponse] {
		return n.NodeStageVolume
	})
	return err
}

// NodeUnstageVolume is the reverse of NodeStageVolume.
func (d *Driver) NodeUnstageVolume(ctx context.Context, volumeID, stagingPath string) error {
	if err := missing(volumeID, errNoVolume, stagingPath, errNoStaging); err != nil {
		return err
	}
	request := &csipb.NodeUnstageVolumeRequest{VolumeId: volumeID, StagingTargetPath: stagingPath}
	_, err := invoke(ctx, d, "NodeUnstageVolume", request,
		func(n csipb.NodeClient) stubOf[*csipb.NodeUnstageVolumeRequest, *csipb.NodeUnstageVolumeResponse] {
			return n.NodeUnstageVolume
		})
	return err
}

// Publish is a request to publish a volume.
type Publish struct {
	// VolumeID is the volume's handle, and TargetPath the directory or file that the driver mounts it on. StagingPath is empty if the
	// driver doesn't stage volumes.
	VolumeID, StagingPath, TargetPath string
	Access                            Access
	ReadOnly                          bool
	// PublishContext is that of the VolumeAttachment, and VolumeContext the attributes of the PersistentVolume with those of the pod.
	PublishContext, VolumeContext, Secrets map[string]string
}

// NodePublishVolume publishes a volume for one pod.
func (d *Driver) NodePublishVolume(ctx context.Context, p Publish) error {
	if err := missing(p.VolumeID, errNoVolume, p.TargetPath, errNoTarget); err != nil {
		return err
	}
	_, err := invokeFor(ctx, d, "NodePublishVolume", p.Access, func(c *csipb.VolumeCapability) *csipb.NodePublishVolumeRequest {
		return &csipb.NodePublishVolumeRequest{
			VolumeId: p.VolumeID, PublishContext: p.PublishContext, StagingTargetPath: p.StagingPath, TargetPath: p.TargetPath,
			VolumeCapability: c, Readonly: p.ReadOnly, Secrets: p.Secrets, VolumeContext: p.VolumeContext,
		}
	}, func(n csipb.NodeClient) stubOf[*csipb.NodePublishVolumeRequest, *csipb.NodePublishVolumeResponse] {
		return n.NodePublishVolume
	})
	return err
}

// NodeUnpublishVolume is the reverse of NodePublishVolume.
func (d *Driver) NodeUnpublishVolume(ctx context.Context, volumeID, targetPath string) error {
	if err := missing(volumeID, errNoVolume, targetPath, errNoTarget); err != nil {
		return err
	}
	request := &csipb.NodeUnpublishVolumeRequest{VolumeId: volumeID, TargetPath: targetPath}
	_, err := invoke(ctx, d, "NodeUnpublishVolume", request,
		func(n csipb.NodeClient) stubOf[*csipb.NodeUnpublishVolumeRequest, *csipb.NodeUnpublishVolumeResponse] {
			return n.NodeUnpublishVolume
		})
	return err
}

// Expand is a request to expand a volume.
type Expand struct {
	// VolumeID is the volume's handle, and Path where it is published or staged. StagingPath is empty if the driver doesn't stage.
	VolumeID, Path, StagingPath string
	// Bytes is the new size.
	Bytes   int64
	Access  Access
	Secrets map[string]string
}

// NodeExpandVolume expands a volume's file system or device. It returns the new size in bytes; 0: the driver doesn't say it.
func (d *Driver) NodeExpandVolume(ctx context.Context, e Expand) (int64, error) {
	if err := missing(e.VolumeID, errNoVolume, e.Path, errNoPath); err != nil {
		return 0, err
	}
	if e.Bytes < 0 {
		return 0, errSize
	}
	e.Access.FSGroup = nil // As in the kubelet's request.
	answer, err := invokeFor(ctx, d, "NodeExpandVolume", e.Access, func(c *csipb.VolumeCapability) *csipb.NodeExpandVolumeRequest {
		return &csipb.NodeExpandVolumeRequest{
			VolumeId: e.VolumeID, VolumePath: e.Path, CapacityRange: &csipb.CapacityRange{RequiredBytes: e.Bytes},
			StagingTargetPath: e.StagingPath, VolumeCapability: c, Secrets: e.Secrets,
		}
	}, func(n csipb.NodeClient) stubOf[*csipb.NodeExpandVolumeRequest, *csipb.NodeExpandVolumeResponse] {
		return n.NodeExpandVolume
	})
	return max(answer.GetCapacityBytes(), 0), err
}

// missing returns the error of the first empty text.
func missing(a string, errA error, b string, errB error) error {
	switch {
	case a == "":
		return errA
	case b == "":
		return errB
	}
	return nil
}
