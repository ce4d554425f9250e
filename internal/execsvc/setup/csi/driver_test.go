package csi

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/metrictest"
)

// TestRequests: each call has the request of the kubelet.
func TestRequests(t *testing.T) {
	b := newBench(t, 0)
	f := b.start(t, "s", csipb.NodeServiceCapability_RPC_VOLUME_MOUNT_GROUP, csipb.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME)
	d, _ := b.register(t, "a.csi", "s")
	ctx, group := t.Context(), int64(1234)
	words := func(word string) map[string]string { return map[string]string{"key": word} }
	access := Access{Mode: v1.ReadWriteOnce, FSType: "ext4", MountFlags: []string{"noatime"}, FSGroup: &group}
	mounted := func(group string) *csipb.VolumeCapability {
		return &csipb.VolumeCapability{
			AccessMode: &csipb.VolumeCapability_AccessMode{Mode: csipb.VolumeCapability_AccessMode_SINGLE_NODE_WRITER},
			AccessType: &csipb.VolumeCapability_Mount{Mount: &csipb.VolumeCapability_MountVolume{
				FsType: "ext4", MountFlags: []string{"noatime"}, VolumeMountGroup: group,
			}},
		}
	}
	block := &csipb.VolumeCapability{
		AccessMode: &csipb.VolumeCapability_AccessMode{Mode: csipb.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER},
		AccessType: &csipb.VolumeCapability_Block{Block: &csipb.VolumeCapability_BlockVolume{}},
	}
	check := func(err error, want proto.Message) {
		t.Helper()
		if diff := cmp.Diff(want, f.last(), protocmp.Transform()); err != nil || diff != "" {
			t.Errorf("%v\n%s", err, diff)
		}
	}
	check(d.NodeStageVolume(ctx, Stage{"v", "/staging", access, words("publish"), words("volume"), words("secret")}),
		&csipb.NodeStageVolumeRequest{
			VolumeId: "v", StagingTargetPath: "/staging", VolumeCapability: mounted("1234"),
			PublishContext: words("publish"), VolumeContext: words("volume"), Secrets: words("secret"),
		})
	shared := Access{Mode: v1.ReadWriteMany, Block: true}
	check(d.NodePublishVolume(ctx, Publish{"v", "/staging", "/target", shared, true, words("publish"), words("volume"), words("secret")}),
		&csipb.NodePublishVolumeRequest{
			VolumeId: "v", StagingTargetPath: "/staging", TargetPath: "/target", VolumeCapability: block, Readonly: true,
			PublishContext: words("publish"), VolumeContext: words("volume"), Secrets: words("secret"),
		})
	check(d.NodeUnpublishVolume(ctx, "v", "/target"), &csipb.NodeUnpublishVolumeRequest{VolumeId: "v", TargetPath: "/target"})
	check(d.NodeUnstageVolume(ctx, "v", "/staging"), &csipb.NodeUnstageVolumeRequest{VolumeId: "v", StagingTargetPath: "/staging"})
	f.set(func() {
		f.answer = func(request proto.Message) (proto.Message, error) {
			if _, ok := request.(*csipb.NodeExpandVolumeRequest); ok {
				return &csipb.NodeExpandVolumeResponse{CapacityBytes: 4096}, nil
			}
			return &csipb.NodeGetVolumeStatsResponse{Usage: []*csipb.VolumeUsage{
				{Unit: csipb.VolumeUsage_BYTES, Total: 100, Available: 60, Used: 40},
				{Unit: csipb.VolumeUsage_INODES, Total: 10, Available: -1, Used: 4}, {Total: 7}, nil,
			}}, nil
		}
	})
	size, err := d.NodeExpandVolume(ctx, Expand{"v", "/target", "/staging", 4000, access, words("secret")})
	check(err, &csipb.NodeExpandVolumeRequest{
		VolumeId: "v", VolumePath: "/target", StagingTargetPath: "/staging", CapacityRange: &csipb.CapacityRange{RequiredBytes: 4000},
		VolumeCapability: mounted(""), Secrets: words("secret"),
	})
	stats, err := d.NodeGetVolumeStats(ctx, "v", "/target")
	check(err, &csipb.NodeGetVolumeStatsRequest{VolumeId: "v", VolumePath: "/target"})
	if want := (Stats{Bytes: Usage{100, 60, 40}}); size != 4096 || stats != want {
		t.Errorf("size %d, stats %+v", size, stats)
	}
	// What lacks a field isn't sent.
	f.stop()
	for want, err := range map[error]error{
		errNoVolume: d.NodeStageVolume(ctx, Stage{StagingPath: "/s"}), errNoStaging: d.NodeUnstageVolume(ctx, "v", ""),
		errNoTarget: d.NodePublishVolume(ctx, Publish{VolumeID: "v"}),
	} {
		if !errors.Is(err, want) {
			t.Errorf("%v; want %v", err, want)
		}
	}
	metrictest.Want(t, b.registry, map[string]float64{
		"csi_operations_seconds{driver_name=a.csi,method_name=/csi.v1.Node/NodeStageVolume,grpc_status_code=OK,migrated=false}":     1,
		"csi_operations_seconds{driver_name=a.csi,method_name=/csi.v1.Node/NodeGetCapabilities,grpc_status_code=OK,migrated=false}": 1,
	})
}

// TestAccessModes: access modes are mapped as the kubelet maps them, with and without SINGLE_NODE_MULTI_WRITER.
func TestAccessModes(t *testing.T) {
	for _, tc := range []struct {
		mode            v1.PersistentVolumeAccessMode
		without, having string
	}{
		{v1.ReadWriteOnce, "SINGLE_NODE_WRITER", "SINGLE_NODE_MULTI_WRITER"},
		{v1.ReadWriteOncePod, "SINGLE_NODE_WRITER", "SINGLE_NODE_SINGLE_WRITER"},
		{v1.ReadOnlyMany, "MULTI_NODE_READER_ONLY", "MULTI_NODE_READER_ONLY"},
		{v1.ReadWriteMany, "MULTI_NODE_MULTI_WRITER", "MULTI_NODE_MULTI_WRITER"},
		{"Other", "UNKNOWN", "UNKNOWN"},
	} {
		if a, b := accessMode(tc.mode, false).String(), accessMode(tc.mode, true).String(); a != tc.without || b != tc.having {
			t.Errorf("%s is %s, and with the capability %s", tc.mode, a, b)
		}
	}
}

// TestIsFinal: which codes say that nothing was done. The column kubelet is its isFinalError.
func TestIsFinal(t *testing.T) {
	b := newBench(t, 0)
	f := b.start(t, "s")
	d, _ := b.register(t, "a.csi", "s")
	for _, tc := range []struct {
		code           codes.Code
		final, kubelet bool
	}{
		{codes.Canceled, false, false},
		{codes.Unknown, true, true},
		{codes.InvalidArgument, true, true},
		{codes.DeadlineExceeded, false, false},
		{codes.NotFound, true, true},
		{codes.AlreadyExists, false, true}, // The volume is mounted with other arguments.
		{codes.PermissionDenied, true, true},
		{codes.ResourceExhausted, false, false},
		{codes.FailedPrecondition, true, true},
		{codes.Aborted, false, false},
		{codes.OutOfRange, true, true},
		{codes.Unimplemented, true, true},
		{codes.Internal, true, true},
		{codes.Unavailable, false, false},
		{codes.DataLoss, true, true},
		{codes.Unauthenticated, true, true},
	} {
		f.fails(tc.code, "the reason")
		err := d.NodeUnstageVolume(t.Context(), "v", "/staging")
		if IsFinal(err) != tc.final || status.Code(err) != tc.code || err.Error() != status.Error(tc.code, "the reason").Error() {
			t.Errorf("%v: final %t", err, IsFinal(err))
		}
		if tc.final != tc.kubelet && tc.code != codes.AlreadyExists {
			t.Errorf("%s differs from the kubelet", tc.code)
		}
	}
	f.fails(99, "an unknown code")
	if err := d.NodeUnstageVolume(t.Context(), "v", "/s"); !IsFinal(err) {
		t.Errorf("%v isn't final", err)
	}
	if IsFinal(nil) || IsFinal(errors.New("x")) || IsFinal(&NotRegisteredError{"x"}) || IsFinal(status.Error(codes.Internal, "x")) {
		t.Error("an error that no driver has sent is final")
	}
	metrictest.Want(t, b.registry, map[string]float64{
		"csi_operations_seconds{grpc_status_code=Internal}": 1, "csi_operations_seconds{grpc_status_code=other}": 1,
	})
}

// TestUnreadableAnswer: an answer that can't be read is no statement of the driver, whichever status gRPC makes of it.
func TestUnreadableAnswer(t *testing.T) {
	b := newBench(t, 0)
	f := b.start(t, "s")
	d, _ := b.register(t, "a.csi", "s")
	for name, answer := range map[string]proto.Message{
		"large":   &csipb.NodeGetInfoResponse{NodeId: strings.Repeat("x", 100<<20)},
		"garbage": nil,
	} {
		f.set(func() {
			f.answer = func(proto.Message) (proto.Message, error) {
				if answer == nil {
					// The field 1 of this answer is no message.
					return &csipb.NodeGetInfoResponse{NodeId: "garbage"}, nil
				}
				return answer, nil
			}
		})
		_, err := d.NodeGetVolumeStats(t.Context(), "v", "/target")
		if err == nil || IsFinal(err) {
			t.Errorf("%s: %v is final", name, err)
		}
	}
}

// TestCapabilitiesFirst: if the capabilities can't be asked, the call wasn't made, and the error says nothing about it.
func TestCapabilitiesFirst(t *testing.T) {
	b := newBench(t, 0)
	b.start(t, "s")
	d, _ := b.register(t, "a.csi", "s")
	must(t, os.Rename(filepath.Join(b.dir, "s"), filepath.Join(b.dir, "old")))
	second := b.start(t, "s")
	second.set(func() { second.canErr = status.Error(codes.Internal, "not yet") })
	err := d.NodeStageVolume(t.Context(), Stage{VolumeID: "v", StagingPath: "/s"})
	if status.Code(err) != codes.Internal || IsFinal(err) {
		t.Errorf("%v; want Internal, not final", err)
	}
	if _, err := d.Capabilities(t.Context()); !IsFinal(err) {
		t.Errorf("%v isn't final for the call itself", err)
	}
}

// TestTimeLimit: a call ends after its limit, or with its context, and isn't final. Other calls go on beside it.
func TestTimeLimit(t *testing.T) {
	b := newBench(t, 2*time.Second)
	f := b.start(t, "s")
	d, _ := b.register(t, "a.csi", "s")
	release := make(chan struct{})
	f.set(func() { f.hang = release })
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error, 1)
	go func() { result <- d.NodePublishVolume(ctx, Publish{VolumeID: "v", TargetPath: "/t"}) }()
	<-f.entered
	cancel()
	if err := <-result; status.Code(err) != codes.Canceled || IsFinal(err) {
		t.Errorf("a cancelled call: %v", err)
	}
	err := d.NodeStageVolume(t.Context(), Stage{VolumeID: "v", StagingPath: "/s"})
	if status.Code(err) != codes.DeadlineExceeded || IsFinal(err) {
		t.Errorf("a hung call: %v", err)
	}
	close(release)
}

// TestSilentSocket: a socket that accepts and never answers delays a registration for its limit only.
func TestSilentSocket(t *testing.T) {
	b := newBench(t, 200*time.Millisecond)
	l := b.listen(t, "s")
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			defer conn.Close()
			go func() { _, _ = io.Copy(io.Discard, conn) }()
		}
	}()
	if _, err := b.Open(t.Context(), b.plugin(t, "a.csi", "s", "1.0.0")); status.Code(err) != codes.DeadlineExceeded || IsFinal(err) {
		t.Errorf("%v; want DeadlineExceeded", err)
	}
}

// TestOtherFile: if another process listens at the path, the next call goes to it, asks its capabilities, and the call that is under
// way ends on the old connection.
func TestOtherFile(t *testing.T) {
	b := newBench(t, 0)
	first := b.start(t, "s")
	d, instance := b.register(t, "a.csi", "s")
	release := make(chan struct{})
	first.set(func() { first.hang = release })
	result := make(chan error, 1)
	go func() { result <- d.NodeStageVolume(context.Background(), Stage{VolumeID: "v", StagingPath: "/s"}) }()
	<-first.entered
	must(t, os.Rename(filepath.Join(b.dir, "s"), filepath.Join(b.dir, "old")))
	second := b.start(t, "s", csipb.NodeServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER)
	must(t, d.NodePublishVolume(t.Context(), Publish{VolumeID: "v", TargetPath: "/t", Access: Access{Mode: v1.ReadWriteOncePod}}))
	mode := second.last().(*csipb.NodePublishVolumeRequest).GetVolumeCapability().GetAccessMode().GetMode()
	if mode != csipb.VolumeCapability_AccessMode_SINGLE_NODE_SINGLE_WRITER {
		t.Errorf("the mode is %s", mode)
	}
	// The end of the registration doesn't end it either, but new calls are refused.
	instance.Close()
	var gone *NotRegisteredError
	if err := d.NodeUnpublishVolume(t.Context(), "v", "/t"); !errors.As(err, &gone) || IsFinal(err) {
		t.Errorf("a call after the end: %v", err)
	}
	close(release)
	if err := <-result; err != nil {
		t.Errorf("the call that was under way: %v", err)
	}
}

// TestSocketSwapped: a socket that is replaced by a link out of plugins, or removed, gets no calls, and that is not final.
func TestSocketSwapped(t *testing.T) {
	b := newBench(t, 0)
	f := b.start(t, "s")
	d, _ := b.register(t, "a.csi", "s")
	outside := newBench(t, 0)
	other := outside.start(t, "containerd.sock")
	f.stop()
	for range 2 {
		err := d.NodeUnstageVolume(t.Context(), "v", "/s")
		if status.Code(err) != codes.Unavailable || IsFinal(err) || !strings.Contains(err.Error(), "connection error") {
			t.Errorf("%v; want Unavailable", err)
		}
		_ = os.Symlink(filepath.Join(outside.dir, "containerd.sock"), filepath.Join(b.dir, "s"))
	}
	if len(other.requests) > 0 {
		t.Errorf("the socket outside got %v", other.requests)
	}
}
