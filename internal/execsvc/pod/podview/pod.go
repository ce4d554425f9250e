package podview

import (
	"slices"
	"time"

	"google.golang.org/protobuf/proto"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// Pod is podexecd's view of one pod. Its pointers are shared, and must not be changed.
type Pod struct {
	UID             types.UID
	Namespace, Name string
	Source          string
	// State is the state of its worker; unspecified if it has none.
	State podexecv1.WorkerState
	// Desired is false for a pod that is being removed, and for one that no source has claimed yet.
	Desired bool
	// Err is the failure of the worker's last step.
	Err error
	// WaitsFor is the reason why the worker waits, in podexecd's own words: it quotes neither containers nor the
	// runtime, because every caller that may see the pod may read it.
	WaitsFor string
	// Retry is when the worker tries again after a failure or a backoff. Zero: it doesn't.
	Retry time.Time
	// Changed is when Status last changed.
	Changed time.Time
	// Status may be nil until the pod is observed.
	Status *v1.PodStatus
	// Object is the desired pod, or its last version. Nil for a pod that was only found running.
	Object *v1.Pod
	// Pulls are the image pulls that it waits for.
	Pulls []*podexecv1.ImagePull
}

// over returns p as the successor of before: equal parts share before's objects. same is set if nothing differs.
func (p Pod) over(before Pod) (merged Pod, same bool) {
	same = p.State == before.State && p.Desired == before.Desired && text(p.Err) == text(before.Err) && p.WaitsFor == before.WaitsFor &&
		p.Retry.Equal(before.Retry) && p.Changed.Equal(before.Changed) &&
		slices.EqualFunc(p.Pulls, before.Pulls, func(a, b *podexecv1.ImagePull) bool { return proto.Equal(a, b) })
	if p.Status == before.Status || equality.Semantic.DeepEqual(p.Status, before.Status) {
		p.Status = before.Status
	} else {
		same = false
	}
	if p.Object == before.Object || equality.Semantic.DeepEqual(p.Object, before.Object) {
		p.Object = before.Object
	} else {
		same = false
	}
	return p, same
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// identity has the fields that readers select pods by. A pod whose identity changes is removed for some readers and
// added for others.
type identity struct {
	uid                     types.UID
	namespace, name, source string
}

func (p Pod) identity() identity { return identity{p.UID, p.Namespace, p.Name, p.Source} }

// reference returns the part of the pod that is kept after its removal.
func (p Pod) reference() Pod {
	return Pod{UID: p.UID, Namespace: p.Namespace, Name: p.Name, Source: p.Source}
}
