package cridiff

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"
)

// GoldenPods returns the pods of the directory by the node that they are for ("" is the usual one). Each gets its file's
// name as its UID and namespace, so that all can run together.
func GoldenPods(dir string) (map[string][]*v1.Pod, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil || len(files) == 0 {
		return nil, fmt.Errorf("%d pods in %s: %w", len(files), dir, err)
	}
	pods := map[string][]*v1.Pod{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		node := ""
		if rest, ok := strings.CutPrefix(string(text), "# node: "); ok {
			node, _, _ = strings.Cut(rest, "\n")
		}
		pod := &v1.Pod{}
		if err := yaml.UnmarshalStrict(text, pod); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		name := strings.TrimSuffix(filepath.Base(file), ".yaml")
		pod.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
		pod.UID, pod.Namespace, pod.Spec.NodeName = types.UID(name), name, ""
		pods[node] = append(pods[node], pod)
	}
	return pods, nil
}

// Batches divides the pods so that those of a batch fit on a small node together, and are at most so many. A pod that fits
// on no such node is alone, and both agents reject it.
func Batches(pods []*v1.Pod, most int) [][]*v1.Pod {
	var batches [][]*v1.Pod
	var batch []*v1.Pod
	used := v1.ResourceList{}
	for _, pod := range pods {
		need := needs(pod)
		if len(batch) == most || len(batch) > 0 && !fits(used, need) {
			batches, batch, used = append(batches, batch), nil, v1.ResourceList{}
		}
		batch = append(batch, pod)
		addTo(used, need)
	}
	return append(batches, batch)
}

func fits(used, need v1.ResourceList) bool {
	for name, limit := range map[v1.ResourceName]resource.Quantity{
		v1.ResourceCPU: resource.MustParse("1500m"), v1.ResourceMemory: resource.MustParse("4Gi"),
	} {
		sum := used[name]
		sum.Add(need[name])
		if sum.Cmp(limit) > 0 && !need.Name(name, resource.DecimalSI).IsZero() {
			return false
		}
	}
	return true
}

// needs is at least what the pod requests.
func needs(pod *v1.Pod) v1.ResourceList {
	sum := v1.ResourceList{}
	addTo(sum, pod.Spec.Overhead)
	if r := pod.Spec.Resources; r != nil {
		addTo(sum, r.Requests)
		addTo(sum, r.Limits)
	}
	for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			addTo(sum, list[i].Resources.Requests)
			addTo(sum, list[i].Resources.Limits)
		}
	}
	return sum
}

func addTo(sum, list v1.ResourceList) {
	for name, quantity := range list {
		q := sum[name]
		q.Add(quantity)
		sum[name] = q
	}
}
