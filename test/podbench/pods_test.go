package podbench

import (
	"fmt"
	"testing"
)

// How often each part is measured.
const (
	starts      = 30
	batchSize   = 30
	batches     = 7
	restarts    = 15
	readinesses = 12
)

// pair is the node of the daemons and the node of the floor.
type pair struct {
	product *product
	floor   *floor
	// kubelet is nil if none is measured.
	kubelet *kubelet
}

// BenchmarkPods runs pods through both daemons, in turn with bare CRI calls, and with a kubelet if there is one. Each
// part is one measurement, for any b.N.
func BenchmarkPods(b *testing.B) {
	for _, r := range runtimes {
		b.Run(r.name, func(b *testing.B) {
			p := &pair{newProduct(b, r.runtime), newFloor(b, r.runtime), newKubelet(b, r.runtime)}
			// The first pods fill the caches.
			p.floor.run(b, 1, staying("first"))
			p.product.run(b, staying("first"))
			if p.kubelet != nil {
				p.kubelet.run(b, staying("first"))
			}
			b.Run("start", p.benchmarkStart)
			b.Run(fmt.Sprintf("batch=%d", batchSize), p.benchmarkBatch)
			b.Run("restart", p.benchmarkRestart)
			b.Run("readiness", p.benchmarkReadiness)
		})
	}
}

// benchmarkStart measures from the manifest's rename to the running process, one pod at a time.
func (p *pair) benchmarkStart(b *testing.B) {
	floor, product := &series{name: "CRI calls"}, &series{name: "both daemons"}
	other := p.other()
	for i := range starts {
		pod := staying(fmt.Sprintf("start%d", i))
		inTurn(i,
			func() { floor.add(p.floor.run(b, 1, pod)) },
			func() { product.add(p.product.run(b, pod)) },
			func() { p.runOther(b, other, pod) },
		)
	}
	reportBeside(b, product, other, floor)
}

// other returns the empty series of the kubelet. It is nil if there is none.
func (p *pair) other() *series {
	if p.kubelet == nil {
		return nil
	}
	return &series{name: "kubelet"}
}

// runOther runs pods by the kubelet, if there is one.
func (p *pair) runOther(b *testing.B, other *series, pods ...pod) {
	b.Helper()
	if p.kubelet != nil {
		other.add(p.kubelet.run(b, pods...))
	}
}

// benchmarkBatch measures until the last process of a batch of pods runs. The fastest parallelism for the floor
// depends on the machine: the best one counts.
func (p *pair) benchmarkBatch(b *testing.B) {
	few, more, all := &series{name: "CRI calls, 2 at a time"}, &series{name: "CRI calls, 4 at a time"}, &series{name: "CRI calls, all at once"}
	product, other := &series{name: "both daemons"}, p.other()
	for i := range batches {
		var pods []pod
		for j := range batchSize {
			pods = append(pods, staying(fmt.Sprintf("batch%d-%d", i, j)))
		}
		inTurn(i,
			func() { few.add(p.floor.run(b, 2, pods...)) },
			func() { more.add(p.floor.run(b, 4, pods...)) },
			func() { product.add(p.product.run(b, pods...)) },
			func() { all.add(p.floor.run(b, len(pods), pods...)) },
			func() { p.runOther(b, other, pods...) },
		)
	}
	reportBeside(b, product, other, few, more, all)
}

// inTurn runs all sides, and starts with a different one in each round, because the first side may find a
// quieter machine or colder caches.
func inTurn(round int, sides ...func()) {
	for i := range sides {
		sides[(round+i)%len(sides)]()
	}
}
