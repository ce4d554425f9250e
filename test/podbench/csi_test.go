package podbench

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/podstream/podstream/internal/kubeletdir"
	"github.com/podstream/podstream/test/csidriver"
	"github.com/podstream/podstream/test/csidriver/calllog"
	"github.com/podstream/podstream/test/csidriver/fault"
	"github.com/podstream/podstream/test/rig"
)

const (
	// callTime is what each call of the slow driver takes.
	callTime = 200 * time.Millisecond
	// stageAndPublish is what the driver takes for one volume.
	stageAndPublish = 2 * callTime
	// csiVolumes is the number of volumes of a pod.
	csiVolumes = 10
	// maxCSIRatio bounds what a pod's start with all of them takes, over one with one volume.
	maxCSIRatio = 1.3
)

// BenchmarkCSIVolumes starts pods without volumes, with one volume of a CSI driver that takes 200 ms for each call, and with ten of its
// volumes, in turn. It fails if the median start with ten takes more than 1.3 times that with one, or more than 1.3 times what a pod
// without volumes and the driver's two calls take. It is one measurement, for any b.N.
func BenchmarkCSIVolumes(b *testing.B) {
	product := newProduct(b, runtimes[0].runtime)
	d := startSlowDriver(b, product)
	none, one, ten := &side{name: "no volumes", product: product}, &side{name: "one volume", product: product}, &side{name: "ten volumes", product: product}
	volumes := d.volumes(b)
	for i := range starts + 1 {
		run := func(s *side, volumes []volume) {
			p := staying(fmt.Sprint("csi", i, "-", len(volumes)))
			p.volumes = volumes
			s.run(b, p, i == 0)
			d.awaitUnstaged(b)
		}
		inTurn(i, func() { run(none, nil) }, func() { run(one, volumes[:1]) }, func() { run(ten, volumes) })
	}
	sum := &side{name: "no volumes, and the calls of one", product: product}
	for _, t := range none.times.times {
		sum.times.add(t + stageAndPublish)
	}
	ratios := []ratio{{"ten volumes over one", ten, one}, {"ten volumes over calls of one", ten, sum}}
	compare(b, []*side{none, one, ten, sum}, ratios)
	for _, r := range ratios {
		if q := r.quotient(0.5); q > maxCSIRatio {
			b.Errorf("%s: %.2f; want at most %.1f", r.name, q, maxCSIRatio)
		}
	}
}

// slowDriver is a CSI driver of a node whose calls take callTime.
type slowDriver struct {
	*csidriver.Driver
	product *product
}

// startSlowDriver starts the driver and waits until it is registered.
func startSlowDriver(b *testing.B, p *product) slowDriver {
	b.Helper()
	// The driver syncs its log and its state. In memory, that takes none of the node's disk.
	dir := b.TempDir()
	call(b, "mount", "-t", "tmpfs", "csidriver", dir)
	b.Cleanup(func() { call(b, "umount", dir) })
	kubelet := p.node.Path("kubelet")
	o := csidriver.Options{
		Name: "slow.csi.podstream.test", NodeID: nodeName, Dir: filepath.Join(dir, "state"),
		Endpoint:     filepath.Join(kubeletdir.Plugins(kubelet), "slow", "csi.sock"),
		Registration: filepath.Join(kubeletdir.Registry(kubelet), "slow-reg.sock"),
		Faults:       []fault.Fault{{Action: fault.Delay, Delay: callTime}},
	}
	for i := range csiVolumes {
		o.Volumes = append(o.Volumes, fmt.Sprint("csi", i))
	}
	driver, err := csidriver.Start(o)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(driver.Stop)
	select {
	case <-driver.Registered():
	case <-time.After(patience):
		b.Fatalf("not within %v: the driver is registered", patience)
	}
	return slowDriver{driver, p}
}

// volumes writes the manifests of the driver and of its volumes, and returns the volumes as those of a pod.
func (d slowDriver) volumes(b *testing.B) (all []volume) {
	b.Helper()
	o := d.Options()
	for _, v := range o.Volumes {
		all = append(all, volume{name: v, source: "persistentVolumeClaim: {claimName: " + v + "}"})
	}
	objects := csidriver.Manifest(o.Name, "bench", o.Volumes...)
	if err := os.WriteFile(filepath.Join(string(d.product.manifests), "volumes.yaml"), []byte(objects), 0o644); err != nil {
		b.Fatal(err)
	}
	return all
}

// awaitUnstaged waits until no volume is staged, so that the next pod doesn't wait for that.
func (d slowDriver) awaitUnstaged(b *testing.B) {
	b.Helper()
	err := rig.Poll(patience, func() error {
		log, err := calllog.Read(d.Options().Log)
		if err != nil {
			return err
		}
		if left := calllog.NothingLeft(log.Calls); len(left) > 0 {
			return fmt.Errorf("volumes are in use: %v", left)
		}
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
}
