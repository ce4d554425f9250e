package main

import (
	"context"
	"os"
	"sync"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// inline are the paths at which inline volumes are published, which the mock driver can't publish: it panics.
var inline sync.Map

// device is the key that the mock driver requires in what the attacher returned. The image's driver doesn't: specs change whether volumes
// are attached.
const device = "device"

// answer answers a call about an inline volume, which is a directory, and passes any other to the mock driver.
func answer(ctx context.Context, request any, handler grpc.UnaryHandler) (any, error) {
	switch r := request.(type) {
	case *csipb.NodePublishVolumeRequest:
		if r.GetVolumeContext()["csi.storage.k8s.io/ephemeral"] == "true" {
			inline.Store(r.GetTargetPath(), true)
			return &csipb.NodePublishVolumeResponse{}, failed(os.MkdirAll(r.GetTargetPath(), 0o755))
		}
		r.PublishContext = withDevice(r.GetPublishContext())
	case *csipb.NodeStageVolumeRequest:
		r.PublishContext = withDevice(r.GetPublishContext())
	case *csipb.NodeUnpublishVolumeRequest:
		if _, is := inline.Load(r.GetTargetPath()); is {
			return &csipb.NodeUnpublishVolumeResponse{}, failed(os.RemoveAll(r.GetTargetPath()))
		}
	}
	return handler(ctx, request)
}

func withDevice(published map[string]string) map[string]string {
	if published[device] != "" {
		return published
	}
	return map[string]string{device: "none"}
}

// failed returns the status of an error.
func failed(err error) error {
	if err == nil {
		return nil
	}
	return status.Error(codes.Internal, err.Error())
}
