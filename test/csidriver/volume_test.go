package csidriver

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
)

// TestVolume: a file that a pod writes is there after unpublish, unstage and the driver's death, each call can be repeated, also after
// a death between both, and nothing is left at the end.
func TestVolume(t *testing.T) {
	for name, test := range map[string]struct {
		backing Backing
		stages  bool
	}{
		"directory": {Directory, true}, "directory without staging": {Directory, false},
		"image": {Image, true}, "image without staging": {Image, false},
	} {
		t.Run(name, func(t *testing.T) {
			needMounts(t, test.backing)
			b := newBench(t, func(o *Options) {
				o.Backing = test.backing
				if !test.stages {
					o.Capabilities = []Capability{Stats}
				}
			})
			c := files(writer)
			twice := func(call func() error) {
				t.Helper()
				must(t, call())
				b.restart()
				must(t, call())
			}
			stage, unstage := func() error { return b.stage(c) }, b.unstage
			if !test.stages {
				wantCode(t, b.stage(c), codes.Unimplemented)
				stage = func() error { return nil }
				unstage = stage
			}
			canary := filepath.Join(b.path("t1"), "canary")
			for round := range 2 {
				twice(stage)
				twice(func() error { return b.publish("t1", c) })
				twice(func() error { return b.publish("t2", c, func(r *csipb.NodePublishVolumeRequest) { r.Readonly = true }) })
				if round == 0 {
					must(t, os.WriteFile(canary, []byte("alive"), 0o600))
				}
				if data, err := os.ReadFile(canary); string(data) != "alive" {
					t.Errorf("the file has %q, %v", data, err)
				}
				if err := os.WriteFile(filepath.Join(b.path("t2"), "x"), nil, 0o600); !strings.Contains(err.Error(), unix.EROFS.Error()) {
					t.Errorf("writing to the target that is only read: %v", err)
				}
				twice(func() error { return b.unpublish("t1") })
				twice(func() error { return b.unpublish("t2") })
				twice(unstage)
				if _, err := os.Lstat(b.path("t1")); !os.IsNotExist(err) {
					t.Errorf("the target exists after NodeUnpublishVolume: %v", err)
				}
			}
			b.clean()
		})
	}
}

// TestRebooted: after a start of the machine, nothing is mounted though the state says so. Publishing without staging is refused.
func TestRebooted(t *testing.T) {
	needMounts(t, Directory)
	b := newBench(t, nil)
	c := files(writer)
	must(t, b.stage(c))
	must(t, b.publish("t", c))
	must(t, unmount(b.path("t")))
	must(t, unmount(b.path("staging")))
	wantCode(t, b.publish("t", c), codes.FailedPrecondition)
	must(t, b.stage(c))
	must(t, b.publish("t", c))
	must(t, b.unpublish("t"))
	must(t, b.unstage())
	b.clean()
}

// TestForeignMount: what the driver hasn't mounted stays, and isn't taken for a volume.
func TestForeignMount(t *testing.T) {
	needMounts(t, Directory)
	b := newBench(t, nil)
	must(t, os.Mkdir(b.path("t"), 0o750))
	must(t, unix.Mount(b.dir, b.path("t"), "", unix.MS_BIND, ""))
	must(t, b.stage(files(writer)))
	must(t, b.unpublish("t"))
	if is, err := isMounted(b.path("t")); !is {
		t.Errorf("NodeUnpublishVolume has unmounted what it didn't mount, %v", err)
	}
	wantCode(t, b.publish("t", files(writer)), codes.Internal)
	must(t, unix.Unmount(b.path("t"), 0))
	must(t, b.unpublish("t"))
	must(t, b.unstage())
	b.clean()
}

// TestBlock: a block volume is a device of the volume's size, and grows.
func TestBlock(t *testing.T) {
	needMounts(t, Image)
	b := newBench(t, func(o *Options) { o.Backing = Image })
	must(t, b.stage(block()))
	must(t, b.publish("dev", block()))
	info, err := os.Stat(b.path("dev"))
	must(t, err)
	if info.Mode()&os.ModeDevice == 0 {
		t.Errorf("the target has the mode %v; want a device", info.Mode())
	}
	sized := func(want int64) {
		t.Helper()
		s, err := b.NodeGetVolumeStats(b.ctx(), &csipb.NodeGetVolumeStatsRequest{VolumeId: "v", VolumePath: b.path("dev")})
		must(t, err)
		if got := s.GetUsage()[0].GetTotal(); got != want {
			t.Errorf("the device has %d bytes; want %d", got, want)
		}
	}
	sized(DefaultSize)
	b.grow("dev", 2*DefaultSize)
	sized(2 * DefaultSize)
	must(t, b.unpublish("dev"))
	must(t, b.unstage())
	b.clean()
}

// grow expands the volume on the controller, then on the node.
func (b *bench) grow(target string, size int64) {
	b.t.Helper()
	wanted := &csipb.CapacityRange{RequiredBytes: size}
	_, err := b.NodeExpandVolume(b.ctx(), &csipb.NodeExpandVolumeRequest{VolumeId: "v", VolumePath: b.path(target), CapacityRange: wanted})
	wantCode(b.t, err, codes.OutOfRange)
	r, err := b.ctl.ControllerExpandVolume(b.ctx(), &csipb.ControllerExpandVolumeRequest{VolumeId: "v", CapacityRange: wanted})
	must(b.t, err)
	if !r.GetNodeExpansionRequired() || r.GetCapacityBytes() != size {
		b.t.Errorf("ControllerExpandVolume answers %v", r)
	}
	_, err = b.NodeExpandVolume(b.ctx(), &csipb.NodeExpandVolumeRequest{VolumeId: "v", VolumePath: b.path(target), CapacityRange: wanted})
	must(b.t, err)
}

// TestExpand: a file system grows while it is mounted.
func TestExpand(t *testing.T) {
	needMounts(t, Image)
	if err := CheckResize(); err != nil {
		t.Skip(err)
	}
	b := newBench(t, func(o *Options) { o.Backing = Image })
	must(t, b.stage(files(writer, "noatime")))
	must(t, b.publish("t", files(writer, "noatime")))
	total := func() int64 {
		t.Helper()
		s, err := b.NodeGetVolumeStats(b.ctx(), &csipb.NodeGetVolumeStatsRequest{VolumeId: "v", VolumePath: b.path("t")})
		must(t, err)
		return s.GetUsage()[0].GetTotal()
	}
	before := total()
	b.grow("t", 4*DefaultSize)
	if after := total(); after < 3*before {
		t.Errorf("the file system had %d bytes, and has %d", before, after)
	}
	must(t, b.unpublish("t"))
	must(t, b.unstage())
	b.clean()
}

// TestInline: an inline volume exists while it is published, without staging and attachment.
func TestInline(t *testing.T) {
	needMounts(t, Directory)
	b := newBench(t, func(o *Options) { o.AttachRequired = true })
	inline := func(r *csipb.NodePublishVolumeRequest) {
		r.VolumeId, r.StagingTargetPath = "csi-123", ""
		r.VolumeContext = map[string]string{ephemeral: "true"}
	}
	must(t, b.publish("t", files(writer), inline))
	must(t, b.publish("t", files(writer), inline))
	if v, err := b.store.get("csi-123"); v == nil {
		t.Errorf("there is no inline volume, %v", err)
	}
	for range 2 {
		_, err := b.NodeUnpublishVolume(b.ctx(), &csipb.NodeUnpublishVolumeRequest{VolumeId: "csi-123", TargetPath: b.path("t")})
		must(t, err)
	}
	if v, err := b.store.get("csi-123"); v != nil || err != nil {
		t.Errorf("the inline volume remains: %+v, %v", v, err)
	}
	b.clean()
}

// TestCapabilities: what the driver's options lack is refused, and what they have works.
func TestCapabilities(t *testing.T) {
	needMounts(t, Directory)
	single := files(csipb.VolumeCapability_AccessMode_SINGLE_NODE_SINGLE_WRITER)
	group := files(writer)
	group.GetMount().VolumeMountGroup = "4321"
	none := newBench(t, func(o *Options) { o.Capabilities = []Capability{Stage} })
	wantCode(t, none.stage(single), codes.InvalidArgument)
	wantCode(t, none.stage(group), codes.InvalidArgument)
	wantCode(t, none.stage(block()), codes.InvalidArgument)
	wantCode(t, none.stage(files(writer, "discard")), codes.InvalidArgument)
	_, err := none.NodeGetVolumeHealth(none.ctx(), &csipb.NodeGetVolumeHealthRequest{VolumeId: "v"})
	wantCode(t, err, codes.Unimplemented)

	b := newBench(t, nil)
	must(t, b.stage(group))
	must(t, b.publish("t", group))
	var s unix.Stat_t
	must(t, unix.Stat(b.path("t"), &s))
	if s.Gid != 4321 || s.Mode&unix.S_ISGID == 0 {
		t.Errorf("the volume has the group %d and the mode %o", s.Gid, s.Mode)
	}
	wantCode(t, b.publish("t", files(writer)), codes.AlreadyExists)
	wantCode(t, b.stage(single), codes.AlreadyExists)
	must(t, b.unpublish("t"))
	must(t, b.unstage())
	must(t, b.stage(single))
	must(t, b.publish("t", single))
	wantCode(t, b.publish("t2", single), codes.FailedPrecondition)
	must(t, b.unpublish("t"))
	must(t, b.unstage())
	if left := b.mounts(); len(left) > 0 {
		t.Errorf("mounted at the end: %q", left)
	}
}

// TestAttach: a volume must be attached to this node, is attached to one node, and nodes have a limit.
func TestAttach(t *testing.T) {
	needMounts(t, Directory)
	b := newBench(t, func(o *Options) {
		o.AttachRequired, o.MaxVolumes, o.OtherNodes = true, 1, []string{"node-2"}
		o.Volumes = []string{"v", "w"}
	})
	attach := func(volume, node string) error {
		_, err := b.ctl.ControllerPublishVolume(b.ctx(), &csipb.ControllerPublishVolumeRequest{
			VolumeId: volume, NodeId: node, VolumeCapability: files(writer),
		})
		return err
	}
	wantCode(t, b.stage(files(writer)), codes.FailedPrecondition)
	must(t, attach("v", "node-1"))
	wantCode(t, attach("v", "node-2"), codes.FailedPrecondition)
	wantCode(t, attach("w", "node-1"), codes.ResourceExhausted)
	wantCode(t, attach("v", "node-3"), codes.NotFound)
	_, err := b.NodeStageVolume(b.ctx(), &csipb.NodeStageVolumeRequest{
		VolumeId: "v", StagingTargetPath: b.path("staging"), VolumeCapability: files(writer), PublishContext: map[string]string{attached: "node-1"},
	})
	must(t, err)
	_, err = b.ctl.DeleteVolume(b.ctx(), &csipb.DeleteVolumeRequest{VolumeId: "v"})
	wantCode(t, err, codes.FailedPrecondition)
	must(t, b.unstage())
	_, err = b.ctl.ControllerUnpublishVolume(b.ctx(), &csipb.ControllerUnpublishVolumeRequest{VolumeId: "v", NodeId: "node-1"})
	must(t, err)
	must(t, attach("v", "node-2"))
}
