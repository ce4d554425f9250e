package lifecycle

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/podstream/podstream/internal/kubeletdir"
	"github.com/podstream/podstream/test/csidriver"
	"github.com/podstream/podstream/test/csidriver/calllog"
	"github.com/podstream/podstream/test/csidriver/fault"
)

const (
	// callTime is what each call of the slow driver takes.
	callTime = 200 * time.Millisecond
	// csiVolumes is the number of volumes of a pod.
	csiVolumes = 10
)

// TestTenVolumes: the ten CSI volumes of a static pod are staged at the same time, and then published at the same time, so that the pod
// starts not much later than with one volume. BenchmarkCSIVolumes of podbench measures that exactly.
func TestTenVolumes(t *testing.T) {
	on(t, latestContainerd, func(t *testing.T, b *bench) {
		d := startSlowDriver(t, b)
		stage := d.add(t, fault.Fault{Method: "NodeStageVolume", Action: fault.Hold})
		publish := d.add(t, fault.Fault{Method: "NodePublishVolume", Action: fault.Hold})
		held := b.run(t, d.claimer(csiVolumes))
		for _, id := range []int{stage, publish} { // A held call doesn't end before the removal of its fault.
			d.await(t, id, csiVolumes)
			check(t, d.Faults.Remove(t.Context(), id))
		}
		held.awaitReady()
		held.remove()
		d.awaitUnused(t)

		d.add(t, fault.Fault{Action: fault.Delay, Delay: callTime})
		took := map[int][]time.Duration{}
		for range 3 {
			for _, n := range []int{0, 1, csiVolumes} {
				began := time.Now()
				p := b.run(t, d.claimer(n))
				p.awaitReady()
				took[n] = append(took[n], time.Since(began))
				p.remove()
				d.awaitUnused(t)
			}
		}
		median := func(n int) time.Duration { return slices.Sorted(slices.Values(took[n]))[len(took[n])/2] }
		none, one, ten := median(0), median(1), median(csiVolumes)
		t.Logf("pods start in %d ms without volumes, %d ms with one and %d ms with ten: %.2f of one, %.2f of none and the calls of one",
			none.Milliseconds(), one.Milliseconds(), ten.Milliseconds(), ten.Seconds()/one.Seconds(), ten.Seconds()/(none+2*callTime).Seconds())
		// The machine is busy with other tests.
		if ten > 3*one {
			t.Errorf("a pod with ten volumes starts in %v; with one in %v", ten, one)
		}
	})
}

// slowDriver is a CSI driver of a bench's node.
type slowDriver struct{ *csidriver.Driver }

// startSlowDriver starts the driver, and writes the manifest of it and its volumes. Both end with the test.
func startSlowDriver(t *testing.T, b *bench) slowDriver {
	t.Helper()
	o := csidriver.Options{
		Name: "slow.csi.podstream.test", Dir: b.Path("slow-driver"),
		Endpoint:     filepath.Join(kubeletdir.Plugins(b.KubeletDir()), "slow", "csi.sock"),
		Registration: filepath.Join(kubeletdir.Registry(b.KubeletDir()), "slow-reg.sock"),
	}
	for i := range csiVolumes {
		o.Volumes = append(o.Volumes, fmt.Sprint("slow-", i))
	}
	driver, err := csidriver.Start(o)
	check(t, err)
	t.Cleanup(driver.Stop)
	select {
	case <-driver.Registered():
	case <-time.After(patience):
		t.Fatalf("not within %v: the driver is registered", patience)
	}
	const file = "slow-volumes.yaml"
	check(t, b.Write(file, csidriver.Manifest(o.Name, "default", o.Volumes...)))
	t.Cleanup(func() { check(t, b.Remove(file)) })
	return slowDriver{driver}
}

// add adds a fault, and returns its ID.
func (d slowDriver) add(t *testing.T, f fault.Fault) int {
	t.Helper()
	id, err := d.Faults.Add(t.Context(), f)
	check(t, err)
	return id
}

// await waits until a fault has acted on that many calls.
func (d slowDriver) await(t *testing.T, id, calls int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	check(t, d.Faults.Await(ctx, id, calls))
}

// claimer is the spec of a pod with that many volumes of the driver.
func (d slowDriver) claimer(n int) string {
	var mounts, volumes strings.Builder
	for _, v := range d.Options().Volumes[:n] {
		fmt.Fprintf(&mounts, "{name: %[1]s, mountPath: /%[1]s}, ", v)
		fmt.Fprintf(&volumes, "{name: %[1]s, persistentVolumeClaim: {claimName: %[1]s}}, ", v)
	}
	return fmt.Sprintf("\ncontainers: [{name: main, args: [sleep], volumeMounts: [%s]}]\nvolumes: [%s]", mounts.String(), volumes.String())
}

// awaitUnused waits until the driver's volumes are unpublished and unstaged.
func (d slowDriver) awaitUnused(t *testing.T) {
	t.Helper()
	eventually(t, "the volumes are unstaged", func() error {
		log, err := calllog.Read(d.Options().Log)
		if err != nil {
			return err
		}
		if left := calllog.NothingLeft(log.Calls); len(left) > 0 {
			return fmt.Errorf("left are %v", left)
		}
		return nil
	})
}
