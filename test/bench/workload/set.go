package workload

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/manifest"
)

// Source is the source of every Set.
const Source = "file"

// Set returns the first reading of this many pods, each in its own origin.
func Set(pods int) manifest.Set {
	set := manifest.Set{Source: Source, ReadTime: time.Unix(0, 0)}
	for n := range pods {
		set.Origins = append(set.Origins, Origin(Pod(n, 0)))
	}
	return set
}

// Origin returns a file with that pod. It panics if the pod has no digest, which doesn't happen with this
// package's pods.
func Origin(pod *v1.Pod) *manifest.Origin {
	spec, err := manifest.SpecDigest(pod)
	if err != nil {
		panic(err)
	}
	status, err := manifest.StatusDigest(pod)
	if err != nil {
		panic(err)
	}
	return &manifest.Origin{
		Name: fmt.Sprintf("/etc/podstream/manifests/%s.yaml", pod.Name),
		Pods: []*manifest.Pod{{Pod: pod, Document: 1, SpecDigest: spec, StatusDigest: status}},
	}
}
