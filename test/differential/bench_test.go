package differential

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	kubetypes "k8s.io/kubernetes/pkg/kubelet/types"

	"github.com/podstream/podstream/test/bench/workload"
)

// BenchmarkUpstreamMerge measures upstream's merge of a set of N pods in which one has changed. The pods are
// the same as in BenchmarkMerge in test/bench, with three containers each. It includes what the merge costs in
// the kubelet: two channels, and the copy of the one pod.
//
// The cost depends on the source of a set. An informer hands over the same pods as before ("shared"), whose
// comparison ends at equal pointers. A file or URL is decoded again ("decoded"), and everything is compared.
func BenchmarkUpstreamMerge(b *testing.B) {
	for _, unchanged := range []string{"shared", "decoded"} {
		for _, pods := range []int{10, 100, 1000} {
			b.Run(fmt.Sprintf("unchanged=%s/pods=%d", unchanged, pods), func(b *testing.B) {
				benchmarkUpstreamMerge(b, pods, unchanged == "decoded")
			})
		}
	}
}

func benchmarkUpstreamMerge(b *testing.B, count int, decoded bool) {
	u := NewUpstream(Incremental)
	defer u.Close()
	reading := func(version int) []*v1.Pod {
		pods := make([]*v1.Pod, count)
		for i := range pods {
			pods[i] = workload.Pod(i, 0)
		}
		pods[count/2] = workload.Pod(count/2, version)
		return pods
	}
	// Upstream keeps the first set's pods and writes to the one that changes, so that pod has two separate
	// versions, which are used in turn.
	first := reading(0)
	var sets [2]kubetypes.PodUpdate
	for i := range sets {
		pods := reading(i + 1)
		for j := range pods {
			if !decoded && j != count/2 {
				pods[j] = first[j]
			}
		}
		sets[i] = kubetypes.PodUpdate{Op: kubetypes.SET, Source: "file", Pods: pods}
	}
	source, updates := u.sources["file"], u.config.Updates()
	source <- kubetypes.PodUpdate{Op: kubetypes.SET, Source: "file", Pods: first}
	<-updates
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		source <- sets[i%2]
		if update := <-updates; update.Op != kubetypes.UPDATE || len(update.Pods) != 1 {
			b.Fatalf("op %d of %d pods; want UPDATE of one pod", update.Op, len(update.Pods))
		}
	}
}
