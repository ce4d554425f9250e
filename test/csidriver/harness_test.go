package csidriver

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"k8s.io/mount-utils"

	"github.com/podstream/podstream/internal/roottest"
	"github.com/podstream/podstream/test/csidriver/calllog"
	"github.com/podstream/podstream/test/csidriver/fault"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long a test waits for what must come.
const patience = time.Minute

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantCode(t *testing.T, err error, code codes.Code) {
	t.Helper()
	if status.Code(err) != code {
		t.Errorf("the answer is %v; want %v", err, code)
	}
}

// needMounts skips the test where nothing can be mounted.
func needMounts(t *testing.T, b Backing) {
	t.Helper()
	roottest.Need(t, "mounting")
	if b == Image {
		roottest.Able(t, CheckImages(t.Context()))
	}
}

// bench is a driver, a client of it, and a directory for paths.
type bench struct {
	*Driver
	t    *testing.T
	o    Options
	conn *grpc.ClientConn
	csipb.NodeClient
	ctl csipb.ControllerClient
	dir string
}

// newBench starts a driver with a volume "v" of 64 MiB.
func newBench(t *testing.T, change func(*Options)) *bench {
	t.Helper()
	dir, err := os.MkdirTemp("", "csid") // t.TempDir is too long for the name of a socket.
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	b := &bench{t: t, dir: dir, o: Options{Dir: filepath.Join(dir, "state"), Volumes: []string{"v"}}}
	if change != nil {
		change(&b.o)
	}
	must(t, os.Mkdir(b.path("staging"), 0o750))
	t.Cleanup(func() {
		// What a failed test has left.
		for _, m := range b.mounts() {
			_ = unmount(m)
		}
		if b.o.Backing == Image {
			_ = images{b.store}.unstage(context.Background(), &volume{ID: "v"}, b.path("staging"))
		}
	})
	b.start()
	t.Cleanup(func() { b.conn.Close(); b.Stop() })
	return b
}

func (b *bench) start() {
	b.t.Helper()
	var err error
	b.Driver, err = Start(b.o)
	must(b.t, err)
	b.dial()
}

func (b *bench) dial() {
	b.t.Helper()
	var err error
	b.conn, err = grpc.NewClient("unix:"+b.Options().Endpoint, grpc.WithTransportCredentials(insecure.NewCredentials()))
	must(b.t, err)
	b.NodeClient, b.ctl = csipb.NewNodeClient(b.conn), csipb.NewControllerClient(b.conn)
}

// restart kills the driver, and starts it on the same directory, without its faults.
func (b *bench) restart() {
	b.t.Helper()
	b.conn.Close()
	b.Kill()
	b.start()
}

func (b *bench) path(name string) string { return filepath.Join(b.dir, name) }

func (b *bench) ctx() context.Context {
	ctx, cancel := context.WithTimeout(b.t.Context(), patience)
	b.t.Cleanup(cancel)
	return ctx
}

// add adds a fault.
func (b *bench) add(f fault.Fault) int {
	b.t.Helper()
	id, err := b.Faults.Add(b.ctx(), f)
	must(b.t, err)
	return id
}

func (b *bench) await(id, calls int) {
	b.t.Helper()
	must(b.t, b.Faults.Await(b.ctx(), id, calls))
}

// readLog returns the log so far.
func (b *bench) readLog() *calllog.Log {
	b.t.Helper()
	log, err := calllog.Read(b.Options().Log)
	must(b.t, err)
	return log
}

// mounts are the mount points below the test's directory, the newest first.
func (b *bench) mounts() (found []string) {
	b.t.Helper()
	all, err := mount.ParseMountInfo("/proc/self/mountinfo")
	must(b.t, err)
	for _, m := range all {
		if strings.HasPrefix(m.MountPoint, b.dir+"/") {
			found = append(found, m.MountPoint)
		}
	}
	slices.Reverse(found)
	return found
}

// files is the capability of a file system; change it.
func files(mode csipb.VolumeCapability_AccessMode_Mode, flags ...string) *csipb.VolumeCapability {
	return &csipb.VolumeCapability{
		AccessMode: &csipb.VolumeCapability_AccessMode{Mode: mode},
		AccessType: &csipb.VolumeCapability_Mount{Mount: &csipb.VolumeCapability_MountVolume{MountFlags: flags}},
	}
}

func block() *csipb.VolumeCapability {
	return &csipb.VolumeCapability{
		AccessMode: &csipb.VolumeCapability_AccessMode{Mode: csipb.VolumeCapability_AccessMode_SINGLE_NODE_WRITER},
		AccessType: &csipb.VolumeCapability_Block{Block: &csipb.VolumeCapability_BlockVolume{}},
	}
}

const writer = csipb.VolumeCapability_AccessMode_SINGLE_NODE_WRITER

func (b *bench) stage(c *csipb.VolumeCapability) error {
	_, err := b.NodeStageVolume(b.ctx(), &csipb.NodeStageVolumeRequest{
		VolumeId: "v", StagingTargetPath: b.path("staging"), VolumeCapability: c, Secrets: map[string]string{"password": "geheim"},
		VolumeContext: map[string]string{tokens: "geheim", "plain": "visible"},
	})
	return err
}

func (b *bench) publish(target string, c *csipb.VolumeCapability, change ...func(*csipb.NodePublishVolumeRequest)) error {
	r := &csipb.NodePublishVolumeRequest{
		VolumeId: "v", StagingTargetPath: b.path("staging"), TargetPath: b.path(target), VolumeCapability: c,
	}
	for _, f := range change {
		f(r)
	}
	_, err := b.NodePublishVolume(b.ctx(), r)
	return err
}

func (b *bench) unpublish(target string) error {
	_, err := b.NodeUnpublishVolume(b.ctx(), &csipb.NodeUnpublishVolumeRequest{VolumeId: "v", TargetPath: b.path(target)})
	return err
}

func (b *bench) unstage() error {
	_, err := b.NodeUnstageVolume(b.ctx(), &csipb.NodeUnstageVolumeRequest{VolumeId: "v", StagingTargetPath: b.path("staging")})
	return err
}

// clean checks that nothing is left, and that the log is correct.
func (b *bench) clean() {
	b.t.Helper()
	if left := b.mounts(); len(left) > 0 {
		b.t.Errorf("mounted at the end: %q", left)
	}
	if b.Options().Backing == Image {
		device, err := images{b.store}.find(b.ctx(), &volume{ID: "v"})
		if err != nil || device != "" {
			b.t.Errorf("the image has the loop device %q at the end, %v", device, err)
		}
	}
	log := b.readLog()
	for _, p := range append(calllog.Check(log.Calls), calllog.NothingLeft(log.Calls)...) {
		b.t.Error(p)
	}
}
