package csivolume

import (
	"cmp"
	"context"
	"errors"
	"os"
	"sync"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
)

// fakeDriver is a CSI driver that binds directories of base. Its calls are served by gRPC.
type fakeDriver struct {
	csipb.UnimplementedNodeServer
	base string
	stop func()

	mu       sync.Mutex
	requests []proto.Message
	can      []csipb.NodeServiceCapability_RPC_Type
	// act replaces what a call does. Nil: the call is made as usual.
	act func(request proto.Message) error
}

// handle is the unary interceptor that answers.
func (f *fakeDriver) handle(_ context.Context, request any, _ *grpc.UnaryServerInfo, _ grpc.UnaryHandler) (any, error) {
	f.mu.Lock()
	act, can := f.act, f.can
	switch request.(type) {
	case *csipb.NodeGetInfoRequest, *csipb.NodeGetCapabilitiesRequest:
	default:
		f.requests = append(f.requests, request.(proto.Message))
	}
	f.mu.Unlock()
	switch r := request.(type) {
	case *csipb.NodeGetInfoRequest:
		return &csipb.NodeGetInfoResponse{NodeId: "node-1"}, nil
	case *csipb.NodeGetCapabilitiesRequest:
		out := &csipb.NodeGetCapabilitiesResponse{}
		for _, c := range can {
			out.Capabilities = append(out.Capabilities, &csipb.NodeServiceCapability{
				Type: &csipb.NodeServiceCapability_Rpc{Rpc: &csipb.NodeServiceCapability_RPC{Type: c}},
			})
		}
		return out, nil
	case *csipb.NodeGetVolumeStatsRequest:
		return &csipb.NodeGetVolumeStatsResponse{Usage: []*csipb.VolumeUsage{
			{Unit: csipb.VolumeUsage_BYTES, Total: 100, Available: 60, Used: 40}, {Unit: csipb.VolumeUsage_INODES, Total: 10, Available: 7, Used: 3},
		}}, nil
	default:
		if act == nil {
			act = f.usual
		}
		return answerTo(r), act(r.(proto.Message))
	}
}

func answerTo(request any) any {
	switch request.(type) {
	case *csipb.NodeStageVolumeRequest:
		return &csipb.NodeStageVolumeResponse{}
	case *csipb.NodeUnstageVolumeRequest:
		return &csipb.NodeUnstageVolumeResponse{}
	case *csipb.NodePublishVolumeRequest:
		return &csipb.NodePublishVolumeResponse{}
	case *csipb.NodeUnpublishVolumeRequest:
		return &csipb.NodeUnpublishVolumeResponse{}
	}
	return &csipb.NodeExpandVolumeResponse{}
}

// usual mounts and unmounts.
func (f *fakeDriver) usual(request proto.Message) error {
	switch r := request.(type) {
	case *csipb.NodeStageVolumeRequest:
		return unix.Mount(f.base, r.GetStagingTargetPath(), "", unix.MS_BIND, "")
	case *csipb.NodeUnstageVolumeRequest:
		return unix.Unmount(r.GetStagingTargetPath(), unix.UMOUNT_NOFOLLOW)
	case *csipb.NodePublishVolumeRequest:
		err := os.Mkdir(r.GetTargetPath(), 0o750)
		if err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
		return unix.Mount(cmp.Or(r.GetStagingTargetPath(), f.base), r.GetTargetPath(), "", unix.MS_BIND, "")
	case *csipb.NodeUnpublishVolumeRequest:
		return errors.Join(unix.Unmount(r.GetTargetPath(), unix.UMOUNT_NOFOLLOW), os.Remove(r.GetTargetPath()))
	}
	return nil
}

// does replaces what the calls do.
func (f *fakeDriver) does(act func(request proto.Message) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.act = act
}

// fails makes the calls return the error.
func (f *fakeDriver) fails(err error) { f.does(func(proto.Message) error { return err }) }

// taken returns the requests since the last call.
func (f *fakeDriver) taken() []proto.Message {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := f.requests
	f.requests = nil
	return all
}
