package board

import (
	"slices"
	"time"

	"google.golang.org/protobuf/proto"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// Pod is one pod as podexecd shows it. What it points to is shared, and isn't changed by anybody.
type Pod struct {
	UID             types.UID
	Namespace, Name string
	Source          string
	// State is where its worker stands; unspecified if it has none.
	State podexecv1.WorkerState
	// Desired is false for a pod on its way out, and for one that no source has claimed yet.
	Desired bool
	// Err is what the worker's last step failed with.
	Err error
	// WaitsFor is what the worker waits for, in podexecd's own words: it quotes neither containers nor the runtime, as everybody who may
	// see the pod may read it.
	WaitsFor string
	// Retry is when the worker looks again by itself after a failure or in a backoff. Zero: it doesn't.
	Retry time.Time
	// Changed is when Status last changed.
	Changed time.Time
	// Status may be nil while nothing has been observed.
	Status *v1.PodStatus
	// Object is the pod as it is desired, or was last. Nil for one that was only found running.
	Object *v1.Pod
	// Pulls are the pulls that it waits for.
	Pulls []*podexecv1.ImagePull
}

// over is p in the place of before: what is equal in both is the same object in both. same is set if nothing differs.
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

// identity is what readers choose pods by. A pod that changes it under its UID has gone for some and come for others.
type identity struct {
	uid                     types.UID
	namespace, name, source string
}

func (p Pod) identity() identity { return identity{p.UID, p.Namespace, p.Name, p.Source} }

// reference is what is remembered of the pod once it is gone.
func (p Pod) reference() Pod {
	return Pod{UID: p.UID, Namespace: p.Namespace, Name: p.Name, Source: p.Source}
}
