package main

import (
	"context"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/podstream/podstream/internal/roottest"
	"github.com/podstream/podstream/test/csidriver"
	"github.com/podstream/podstream/test/csidriver/calllog"
)

// TestKilledAtAnyTime: kill -9 at random times of each call. The calls succeed when they are repeated, a file in the volume is
// intact, and at the end nothing is mounted or attached to a loop device.
func TestKilledAtAnyTime(t *testing.T) {
	roottest.Need(t, "mounting")
	for _, backing := range []csidriver.Backing{csidriver.Directory, csidriver.Image} {
		t.Run(string(backing), func(t *testing.T) {
			if backing == csidriver.Image {
				roottest.Able(t, csidriver.CheckImages(t.Context()))
			}
			seed := uint64(time.Now().UnixNano())
			t.Logf("seed %d", seed)
			random := rand.New(rand.NewPCG(seed, 0))
			dir, err := os.MkdirTemp("", "csid") // t.TempDir is too long for the name of a socket.
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { os.RemoveAll(dir) })
			staging, target := filepath.Join(dir, "staging"), filepath.Join(dir, "target")
			if err := os.Mkdir(staging, 0o750); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { // what a failed test has left
				_, _ = unix.Unmount(target, unix.MNT_DETACH), unix.Unmount(staging, unix.MNT_DETACH)
			})
			conn, err := grpc.NewClient("unix:"+filepath.Join(dir, "csi.sock"), grpc.WithTransportCredentials(insecure.NewCredentials()))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			node := csipb.NewNodeClient(conn)
			p := &program{t: t, dir: dir}
			arg := "--backing=" + string(backing)
			p.start(arg)
			// until kills the driver in the call up to twice, and repeats it until it succeeds.
			until := func(call func(context.Context) error) {
				t.Helper()
				for range 2 {
					result := make(chan error, 1)
					go func() { result <- call(t.Context()) }()
					killAt := time.NewTimer(time.Duration(random.IntN(30_000)) * time.Microsecond)
					<-killAt.C
					if err := p.cmd.Process.Kill(); err != nil {
						t.Fatal(err)
					}
					p.died()
					p.start(arg)
					<-result // A call that wasn't sent before the death waits for the next driver.
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				// The connection breaks once more when gRPC finds that the socket is another one.
				for err := call(ctx); err != nil; err = call(ctx) {
					if ctx.Err() != nil {
						t.Fatal(err)
					}
				}
			}
			capability := &csipb.VolumeCapability{
				AccessMode: &csipb.VolumeCapability_AccessMode{Mode: csipb.VolumeCapability_AccessMode_SINGLE_NODE_WRITER},
				AccessType: &csipb.VolumeCapability_Mount{Mount: &csipb.VolumeCapability_MountVolume{}},
			}
			canary := filepath.Join(target, "canary")
			wait := grpc.WaitForReady(true)
			for round := range 4 {
				until(func(ctx context.Context) error {
					_, err := node.NodeStageVolume(ctx, &csipb.NodeStageVolumeRequest{
						VolumeId: "v", StagingTargetPath: staging, VolumeCapability: capability,
					}, wait)
					return err
				})
				until(func(ctx context.Context) error {
					_, err := node.NodePublishVolume(ctx, &csipb.NodePublishVolumeRequest{
						VolumeId: "v", StagingTargetPath: staging, TargetPath: target, VolumeCapability: capability,
					}, wait)
					return err
				})
				if round == 0 {
					if err := os.WriteFile(canary, []byte("alive"), 0o600); err != nil {
						t.Fatal(err)
					}
				}
				if data, err := os.ReadFile(canary); string(data) != "alive" {
					t.Fatalf("the file has %q, %v", data, err)
				}
				until(func(ctx context.Context) error {
					_, err := node.NodeUnpublishVolume(ctx, &csipb.NodeUnpublishVolumeRequest{VolumeId: "v", TargetPath: target}, wait)
					return err
				})
				until(func(ctx context.Context) error {
					_, err := node.NodeUnstageVolume(ctx, &csipb.NodeUnstageVolumeRequest{VolumeId: "v", StagingTargetPath: staging}, wait)
					return err
				})
			}
			if err := p.cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			p.died()
			nothingLeft(t, dir)
		})
	}
}

// nothingLeft judges by mountinfo, losetup and the log.
func nothingLeft(t *testing.T, dir string) {
	t.Helper()
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil || strings.Contains(string(mounts), dir) {
		t.Errorf("mounts at the end, %v:\n%s", err, mounts)
	}
	if loops, err := exec.Command("losetup", "--all").Output(); strings.Contains(string(loops), dir) {
		t.Errorf("loop devices at the end, %v:\n%s", err, loops)
	}
	log, err := calllog.Read(filepath.Join(dir, "calls.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	for _, problem := range append(calllog.Check(log.Calls), calllog.NothingLeft(log.Calls)...) {
		t.Error(problem)
	}
}
