package differential

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	kubetypes "k8s.io/kubernetes/pkg/kubelet/types"
)

// BenchmarkUpstreamMerge is upstream's merge of a set in which one of so many pods has another image than before; the pods are
// those of BenchmarkMergeOneChange in internal/mergesvc/merge, with one container as there, and with three. It includes what
// the kubelet pays for it as well: two channels, and the copy of the one pod.
//
// To upstream it matters where a set comes from. An informer hands over the pods that it handed over before ("shared"), and
// their comparison ends at the first pointers; a file or URL is decoded anew ("decoded"), and all is compared.
func BenchmarkUpstreamMerge(b *testing.B) {
	for _, containers := range []int{1, 3} {
		for _, unchanged := range []string{"shared", "decoded"} {
			for _, pods := range []int{10, 100, 1000} {
				b.Run(fmt.Sprintf("containers=%d/unchanged=%s/pods=%d", containers, unchanged, pods), func(b *testing.B) {
					benchmarkUpstreamMerge(b, benchPods(containers, pods), unchanged == "decoded")
				})
			}
		}
	}
}

func benchmarkUpstreamMerge(b *testing.B, first []*v1.Pod, decoded bool) {
	u := NewUpstream(Incremental)
	defer u.Close()
	// Upstream keeps the first set's pods and writes into the one that changes: that pod comes in two versions of its own,
	// which take turns.
	var sets [2]kubetypes.PodUpdate
	for i := range sets {
		pods := make([]*v1.Pod, len(first))
		for j, p := range first {
			if decoded || j == len(first)/2 {
				p = p.DeepCopy()
			}
			pods[j] = p
		}
		pods[len(first)/2].Spec.Containers[0].Image = fmt.Sprint("other", i)
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

// benchPods are freshly decoded pods: none shares anything with another.
func benchPods(containers, n int) []*v1.Pod {
	pods := make([]*v1.Pod, n)
	for i := range pods {
		p := pod(fmt.Sprintf("pod-%d", i), fmt.Sprintf("pod-%d", i))
		p.Annotations = map[string]string{}
		p.Spec.Containers = nil
		for c := range containers {
			p.Spec.Containers = append(p.Spec.Containers, v1.Container{Name: []string{"main", "second", "third"}[c], Image: "pause"})
		}
		pods[i] = p
	}
	return pods
}
