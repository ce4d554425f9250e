package podbench

import (
	"fmt"
	"testing"
)

// How often each part is measured.
const (
	starts      = 30
	batchSize   = 30
	batches     = 3
	restarts    = 15
	readinesses = 12
)

// pair is the node of the daemons and the node of the floor.
type pair struct {
	product *product
	floor   *floor
}

// BenchmarkPods runs pods through both daemons, in turn with bare CRI calls. Each part is one measurement, for
// any b.N.
func BenchmarkPods(b *testing.B) {
	for _, r := range runtimes {
		b.Run(r.name, func(b *testing.B) {
			p := &pair{newProduct(b, r.runtime), newFloor(b, r.runtime)}
			// The first pods fill the caches.
			p.floor.run(b, 1, staying("first"))
			p.product.run(b, staying("first"))
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
	for i := range starts {
		pod := staying(fmt.Sprintf("start%d", i))
		inTurn(i, func() { floor.add(p.floor.run(b, 1, pod)) }, func() { product.add(p.product.run(b, pod)) })
	}
	report(b, product, floor)
}

// benchmarkBatch measures until the last process of a batch of pods runs. The fastest parallelism for the floor
// depends on the machine: the best one counts.
func (p *pair) benchmarkBatch(b *testing.B) {
	few, more, all := &series{name: "CRI calls, 2 at a time"}, &series{name: "CRI calls, 4 at a time"}, &series{name: "CRI calls, all at once"}
	product := &series{name: "both daemons"}
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
		)
	}
	report(b, product, few, more, all)
}

// inTurn runs all sides, and starts with a different one in each round, because the first side may find a
// quieter machine or colder caches.
func inTurn(round int, sides ...func()) {
	for i := range sides {
		sides[(round+i)%len(sides)]()
	}
}
