package execsvc

import (
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/podstream/podstream/client"
	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
	"github.com/podstream/podstream/internal/simruntime/simnode"
)

// newPod returns a pod with one container, of an image that is present.
func newPod(uid types.UID, name, source string, args ...string) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{UID: uid, Namespace: "default", Name: name, Annotations: map[string]string{podmeta.SourceAnnotation: source}},
		Spec: v1.PodSpec{
			RestartPolicy: v1.RestartPolicyAlways, TerminationGracePeriodSeconds: ptr.To[int64](7),
			Containers: []v1.Container{simnode.Container("main", args...)},
		},
	}
}

// withCephFS returns a copy of the pod with a volume that this version doesn't support.
func withCephFS(pod *v1.Pod) *v1.Pod {
	pod = pod.DeepCopy()
	withVolume(&pod.Spec, v1.VolumeSource{CephFS: &v1.CephFSVolumeSource{Monitors: []string{"ceph.example.com"}}})
	return pod
}

// ofAnotherOS returns a copy of the pod that is rejected for its label.
func ofAnotherOS(pod *v1.Pod) *v1.Pod {
	pod = pod.DeepCopy()
	pod.Labels = map[string]string{v1.LabelOSStable: "windows"}
	return pod
}

// change returns a change of pods of one source, which is the first pod's.
func change(op client.Op, ready bool, pods ...*v1.Pod) client.Change {
	c := client.Change{Op: op, Source: pods[0].Annotations[podmeta.SourceAnnotation], SourceReady: ready}
	for _, pod := range pods {
		p := client.Pod{UID: pod.UID, Namespace: pod.Namespace, Name: pod.Name, Source: c.Source}
		if op != client.Remove {
			p.Object = pod
		}
		c.Pods = append(c.Pods, p)
	}
	return c
}

// becomesReady returns the empty ADD, which means that the source is ready.
func becomesReady(source string) client.Change {
	return client.Change{Op: client.Add, Source: source, SourceReady: true}
}

func ops(changes ...client.Change) client.Event { return client.Event{Ops: changes} }

func synced(sources ...client.Source) client.Event {
	return client.Event{Synced: true, Sources: sources}
}
